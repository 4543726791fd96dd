#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A rogue leader at the endpoint of a job: rogue.py ADDRESS PORT JOB. Prints "ready", then for each
connection one line with the greeting that it sent, a different one each time."""
import itertools
import socket
import sys

import attacks
import frames

IN_THE_CLEAR, WITH_TLS, WITH_CREDENTIAL = 1, 2, 3  # replies
LEADER = 0xBAD


def greetings(job, address):
    """The first messages of a rogue, by name. Each of them tries to make the node follow it."""
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
    """Prints "ready", then sends one of these lies to each client, and prints its name. begin: the
    bytes before it."""
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
                    pass  # the node has closed the connection


def main():
    address, port, job = sys.argv[1:]
    serve(address, int(port), greetings(job, address))


if __name__ == "__main__":
    main()
