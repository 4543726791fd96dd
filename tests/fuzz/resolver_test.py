#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The store never queries the resolver about its clients. In separate network and mount namespaces,
the only name server counts the queries and never answers; it must receive none while clients
connect. (PyTorch's own server queries the resolver for each connection, inside its loop.)"""
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / 'support'))
from store_process import StoreProcess, receive  # noqa: E402

INSIDE = 'MUSTER_RESOLVER_TEST_INSIDE'
CLIENTS = 256


class MuteResolver:
    """Receives queries on 127.0.0.1:53 and answers none."""

    def __init__(self):
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind(('127.0.0.1', 53))
        self.questions = []
        threading.Thread(target=self.run, daemon=True).start()

    def run(self):
        while True:
            self.questions.append(self.socket.recv(1500))


def enter(folder):
    """Makes the silent server the only source of names in this mount namespace."""
    subprocess.run(['ip', 'link', 'set', 'lo', 'up'], check=True)
    subprocess.run(['mount', '--make-rprivate', '/'], check=True)
    for name, content in (('resolv.conf', 'nameserver 127.0.0.1\noptions timeout:1 attempts:1\n'),
                        ('nsswitch.conf', 'hosts: dns\n'), ('hosts', '')):
        own = Path(folder) / name
        own.write_text(content)
        target = Path('/etc') / name
        if target.exists():
            subprocess.run(['mount', '--bind', own, target.resolve()], check=True)


def connect_all(port):
    """Connects, greets and counts, one client after another. Returns the elapsed seconds."""
    start = time.monotonic()
    clients = []
    for number in range(CLIENTS):
        client = socket.create_connection(('127.0.0.1', port), timeout=60)
        client.sendall(bytes.fromhex('00cef7853c0d') + number.to_bytes(4, 'little'))
        assert receive(client, 4) == number.to_bytes(4, 'little')
        clients.append(client)
    for client in clients:
        client.close()
    return time.monotonic() - start


class NeverAsked(unittest.TestCase):
    def test_clients_connect_and_the_resolver_hears_nothing(self):
        with tempfile.TemporaryDirectory() as folder:
            enter(folder)
            resolver = MuteResolver()
            with StoreProcess() as store:
                took = connect_all(store.port)
                self.assertEqual(resolver.questions, [])
            print(f'{CLIENTS} clients connected in {took:.3f} s')
            # Proves that a query would have been noticed: sends one, as PyTorch's server does.
            with self.assertRaises(OSError):
                socket.gethostbyaddr('127.0.0.1')
            self.assertGreater(len(resolver.questions), 0)


def main():
    if os.environ.get(INSIDE):
        unittest.main()
    args = ['unshare', '--net', '--mount']
    if os.geteuid() != 0:
        args += ['--user', '--map-root-user']
    os.environ[INSIDE] = '1'
    os.execvp(args[0], [*args, sys.executable, *sys.argv])


if __name__ == '__main__':
    main()
