#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The inbound half of a service mesh's sidecar: sidecar.py PORT UID. Forwards connections that the
host's firewall redirects to PORT to their original destination, from 127.0.0.6 and as user UID,
like Envoy. Prints "ready"."""
import contextlib
import os
import socket
import struct
import sys
import threading

SO_ORIGINAL_DST = 80


def pump(source, sink):
    with contextlib.suppress(OSError):
        while data := source.recv(65536):
            sink.sendall(data)
    for one in (source, sink):
        with contextlib.suppress(OSError):
            one.shutdown(socket.SHUT_RDWR)


def carry(client):
    port, address = struct.unpack("!2xH4s8x", client.getsockopt(socket.SOL_IP, SO_ORIGINAL_DST, 16))
    inner = socket.socket()
    inner.bind(("127.0.0.6", 0))
    try:
        inner.connect((socket.inet_ntoa(address), port))
    except OSError:
        client.close()
        return
    threading.Thread(target=pump, args=(client, inner), daemon=True).start()
    pump(inner, client)


def main(port, user):
    os.setgid(user)
    os.setuid(user)
    listener = socket.create_server(("0.0.0.0", port))
    print("ready", flush=True)
    while True:
        client, _ = listener.accept()
        threading.Thread(target=carry, args=(client,), daemon=True).start()


main(*map(int, sys.argv[1:]))
