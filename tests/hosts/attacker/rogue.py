#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Somebody else at the endpoint of a job who would lead it: rogue.py ADDRESS PORT JOB. Says
"ready", then for each connection a line with the greeting that it got, another one each time."""
import itertools
import socket
import sys

import attacks
import frames

IN_THE_CLEAR, WITH_TLS, WITH_CREDENTIAL = 1, 2, 3  # replies
LEADER = 0xBAD


def greetings(job, address):
    """What a rogue may say first, by its name: all that would make the node follow it."""
    me = frames.node(LEADER, address)
    lead = (frames.frame(3, me + frames.i64(10**9)) + frames.frame(10, frames.round_of(me))
            + frames.frame(12, frames.round_id() + frames.name(address) + frames.u16(4711)
                           + frames.offer()))
    head = frames.preamble(attacks.VERSION)
    forged = frames.forged(job, LEADER)
    yield "leads in the clear", head + frames.u8(IN_THE_CLEAR) + lead
    yield "leads in place of TLS", head + frames.u8(WITH_TLS) + lead
    yield "redirects in the clear", head + frames.u8(IN_THE_CLEAR) + forged["Redirect"]
    yield "ends the job in the clear", head + frames.u8(IN_THE_CLEAR) + forged["Close"]
    yield "claims in the clear", head + frames.u8(IN_THE_CLEAR) + forged["Claim"]
    yield "leads in version 3", frames.preamble(3) + bytes(16) + lead
    yield "noise", bytes(range(256)) * 8
    yield "nothing", b""


def serve(address, port, lies, begin=lambda stream: None):
    """Says "ready", then tells each who connects one of these lies, and prints its name. begin:
    what comes before it."""
    with socket.create_server((address, port)) as listening:
        print("ready", flush=True)
        for name, said in itertools.cycle(lies):
            stream, _ = listening.accept()
            with stream:
                print(name, flush=True)
                try:
                    begin(stream)
                    stream.sendall(said)
                    stream.shutdown(socket.SHUT_WR)
                    while stream.recv(65536):
                        pass
                except OSError:
                    pass  # the node has had enough


def main():
    address, port, job = sys.argv[1:]
    serve(address, int(port), greetings(job, address))


if __name__ == "__main__":
    main()
