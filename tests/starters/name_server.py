# SPDX-License-Identifier: Apache-2.0
"""name_server.py ADDRESS FILE: answers queries for IPv4 addresses from a JSON file of names, which
it reads again for each query. Other names do not exist."""

import json
import pathlib
import socket
import struct
import sys

HEADER = 12
A, IN = 1, 1
NAME_OF_THE_QUESTION = b"\xc0\x0c"  # a pointer to byte 12


def question(packet):
    """(name, type, end offset)"""
    labels, at = [], HEADER
    while packet[at]:
        labels.append(packet[at + 1:at + 1 + packet[at]].decode())
        at += 1 + packet[at]
    kind, = struct.unpack_from(">H", packet, at + 1)
    return ".".join(labels).lower(), kind, at + 5


def answer(packet, names):
    name, kind, end = question(packet)
    address = names.get(name)
    answers = b""
    if address and kind == A:
        answers = NAME_OF_THE_QUESTION + struct.pack(">HHIH", A, IN, 0, 4)
        answers += socket.inet_aton(address)
    flags = 0x8180 if address else 0x8183  # NXDOMAIN
    counts = struct.pack(">HHHHH", flags, 1, 1 if answers else 0, 0, 0)
    return packet[:2] + counts + packet[HEADER:end] + answers


def serve(address, file):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        server.bind((address, 53))
        print("ready", flush=True)
        while True:
            packet, client = server.recvfrom(2000)
            server.sendto(answer(packet, json.loads(pathlib.Path(file).read_text())), client)


if __name__ == "__main__":
    serve(*sys.argv[1:])
