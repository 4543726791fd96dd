#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Records the traffic of this host to and from a TCP port: recorder.py PORT. Prints "ready". At the
end of its input it prints JSON: {"to": [HEX], "from": [HEX]}, the bytes of each completely recorded
connection, in the order of the connections. Needs root."""
import json
import selectors
import socket
import struct
import sys

PACKET_MAX = 1 << 16
IPV4, TCP, SYN = 0x0800, 6, 2


def payloads(packet):
    """(source, target, sequence, is_syn, bytes) of a TCP packet; each end is an address and a
    port."""
    if packet[12:14] != struct.pack(">H", IPV4) or packet[23] != TCP:
        return None
    ip = packet[14:14 + struct.unpack(">H", packet[16:18])[0]]
    tcp = ip[(ip[0] & 15) * 4:]
    source, target, sequence = struct.unpack(">HHI", tcp[:8])
    return ((ip[12:16], source), (ip[16:20], target), sequence, bool(tcp[13] & SYN),
            tcp[(tcp[12] >> 4) * 4:])


class Streams:
    """The bytes of connections, ordered by their sequence numbers."""

    def __init__(self):
        self._parts = {}  # (source, target): {offset: bytes}
        self._first = {}

    def add(self, source, target, sequence, is_syn, data):
        if is_syn:
            self._first[source, target] = sequence + 1
            self._parts[source, target] = {}
        elif data and (source, target) in self._first:
            offset = (sequence - self._first[source, target]) % (1 << 32)
            self._parts[source, target][offset] = data

    def of(self, is_wanted):
        return [self._joined(parts) for ends, parts in self._parts.items()
                if is_wanted(*ends) and parts]

    @staticmethod
    def _joined(parts):
        out = b""
        for offset, data in sorted(parts.items()):
            if offset <= len(out):
                out = out[:offset] + data
        return out


def main():
    port = int(sys.argv[1])
    streams = Streams()
    wire = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.ntohs(IPV4))
    wire.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 25)
    print("ready", flush=True)
    ready = selectors.DefaultSelector()
    ready.register(wire, selectors.EVENT_READ)
    ready.register(sys.stdin, selectors.EVENT_READ)
    while not any(key.fileobj is sys.stdin for key, _ in ready.select()):
        packet = payloads(wire.recv(PACKET_MAX))
        if packet is not None and port in (packet[0][1], packet[1][1]):
            streams.add(*packet)
    print(json.dumps({"to": [each.hex() for each in streams.of(lambda s, t: t[1] == port)],
                      "from": [each.hex() for each in streams.of(lambda s, t: s[1] == port)]}))


if __name__ == "__main__":
    main()
