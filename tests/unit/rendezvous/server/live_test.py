#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Replays captures of real clients against a running muster-store, whole and byte by byte. Only
captures in which one connection is active at a time: with several, the kernel decides which is
served first, so replay_test.cpp replays them against the core."""
import os
import socket
import sys
import unittest
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[2] / 'support'))
from store_process import StoreProcess, receive  # noqa: E402


def lines_of(path):
    for line in path.read_text().splitlines():
        if not line.startswith('#'):
            who, data = line.split()
            yield who[0], who[1], None if data == 'close' else bytes.fromhex(data)


def connect(port):
    connection = socket.create_connection(('127.0.0.1', port), timeout=30)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


class Captures(unittest.TestCase):
    def replay(self, path, piece):
        with StoreProcess() as store:
            connections = {}
            for name, direction, data in lines_of(path):
                if name not in connections:
                    connections[name] = connect(store.port)
                if data is None:
                    connections.pop(name).close()
                elif direction == '<':
                    self.assertEqual(receive(connections[name], len(data)).hex(), data.hex())
                else:
                    for at in range(0, len(data), piece):
                        connections[name].sendall(data[at:at + piece])
            for connection in connections.values():
                connection.close()

    def test_each_capture_is_answered_as_by_the_reference(self):
        captures = sorted((HERE / 'captures').glob('*_operations.txt'))
        self.assertEqual(len(captures), 2)
        for path in captures:
            for piece in (1 << 20, 1):
                with self.subTest(capture=path.name, piece=piece):
                    self.replay(path, piece)


class Raw(unittest.TestCase):
    """Cases without a capture, which PyTorch's own tests cover with raw bytes."""

    def test_validate_and_ping_are_answered_with_the_nonce(self):
        with StoreProcess() as store, connect(store.port) as client:
            client.sendall(bytes.fromhex('00cef7853c0d2a000000'))
            self.assertEqual(receive(client, 4).hex(), '2a000000')

    def test_a_half_set_holds_up_nobody_and_works_when_the_rest_comes(self):
        with StoreProcess() as store, connect(store.port) as slow, connect(store.port) as other:
            slow.sendall(bytes.fromhex('00cef7853c01') + b'\x02\0\0\0\0\0\0\0/k')
            other.sendall(bytes.fromhex('00cef7853c06') + b'\x01' + bytes(7) +
                          b'\x02\0\0\0\0\0\0\0/k')
            other.sendall(b'\x0d' + b'ping')
            self.assertEqual(receive(other, 4), b'ping')
            slow.sendall(b'\x01\0\0\0\0\0\0\0v')
            self.assertEqual(receive(other, 1), b'\0')

    def test_old_and_new_clients_share_a_server(self):
        with StoreProcess() as store, connect(store.port) as old, connect(store.port) as new:
            old.sendall(b'\0' + b'\x02\0\0\0\0\0\0\0/k' + b'\x01\0\0\0\0\0\0\0v' + b'\x06')
            self.assertEqual(receive(old, 8), b'\x01' + bytes(7))
            new.sendall(bytes.fromhex('00cef7853c03') + b'\x02\0\0\0\0\0\0\0/k')
            self.assertEqual(receive(new, 9), b'\x01' + bytes(7) + b'v')


if __name__ == '__main__':
    os.environ.setdefault('PYTHONDONTWRITEBYTECODE', '1')
    unittest.main()
