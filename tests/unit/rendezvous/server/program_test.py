#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""muster-store as a program: options, one-line errors, port file, addresses, exit."""
import os
import signal
import socket
import subprocess
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / 'support'))
from store_process import StoreProcess, receive  # noqa: E402


def run(*args):
    return subprocess.run([os.environ['STORE_PROGRAM'], *args], text=True, capture_output=True,
                          stdin=subprocess.DEVNULL, timeout=60)


def greet(address, port):
    with socket.create_connection((address, port), timeout=60) as client:
        client.sendall(bytes.fromhex('00cef7853c0d') + b'ping')
        return receive(client, 4)


class CommandLine(unittest.TestCase):
    def check_error(self, args, code, *expected):
        done = run(*args)
        self.assertEqual(done.returncode, code, done)
        self.assertEqual(done.stdout, '')
        self.assertEqual(done.stderr.count('\n'), 1, done.stderr)
        for part in ('muster-store: error: ', *expected):
            self.assertIn(part, done.stderr)

    def test_help_names_every_option_and_its_default(self):
        done = run('--help')
        self.assertEqual((done.returncode, done.stderr), (0, ''))
        for part in ('--bind', '127.0.0.1', '--port', '29500', '--port-file', '--uid', '--open',
                     '--version'):
            self.assertIn(part, done.stdout)
        self.assertEqual(run('-h').stdout, done.stdout)

    def test_version_is_one_line(self):
        done = run('--version')
        self.assertEqual((done.returncode, done.stderr), (0, ''))
        self.assertRegex(done.stdout, r'\Amuster-store \d+\.\d+\.\d+\n\Z')

    def test_usage_errors_are_one_line_and_exit_2(self):
        self.check_error(['--prot', '3'], 2, "unknown option --prot - did you mean --port?")
        self.check_error(['extra'], 2, 'unknown option extra')
        for port in ('99999', '-1', 'x', ''):
            self.check_error([f'--port={port}'], 2, '--port')
        self.check_error(['--port'], 2, '--port')
        self.check_error(['--uid', 'no such'], 2, "no user 'no such' in /etc/passwd", 'id -u')
        self.check_error(['--uid=4294967295'], 2, '--uid: invalid user ID 4294967295')
        self.check_error(['--uid=0', '--open'], 2, '--uid and --open cannot be combined')
        self.check_error(['--bind', 'localhost'], 2, "'localhost'", 'not a numeric address')

    def test_what_the_system_refuses_exits_69(self):
        with StoreProcess() as store:
            self.check_error(['--port', str(store.port)], 69, 'Address already in use', 'port 0')
        self.check_error(['--bind', '192.0.2.1'], 69, '192.0.2.1:29500', 'no such address')
        self.check_error(['--port', '0', '--port-file', '/nowhere/port'], 69, '/nowhere/port',
                         'No such file')


class Life(unittest.TestCase):
    def test_it_says_nothing_and_ends_with_0_at_either_signal(self):
        for number in (signal.SIGTERM, signal.SIGINT):
            with StoreProcess() as store:
                self.assertEqual(greet('127.0.0.1', store.port), b'ping')
                store.process.send_signal(number)
                self.assertEqual(store.process.wait(60), 0)
                self.assertEqual(store.process.stderr.read(), '')

    def test_the_port_file_is_whole_and_nothing_lies_beside_it(self):
        with StoreProcess() as store:
            self.assertEqual(store.port_file.read_text(), f'{store.port}\n')
            self.assertEqual(list(store.port_file.parent.iterdir()), [store.port_file])

    def test_a_limit_that_a_client_breaks_is_said_in_one_line(self):
        with StoreProcess() as store:
            with socket.create_connection(('127.0.0.1', store.port), timeout=60) as client:
                client.sendall(bytes.fromhex('00cef7853c010120000000000000'))
                self.assertEqual(client.recv(1), b'')
            store.stop()
            self.assertRegex(store.errors,
                             r'\Amuster-store: warning: closed the session of 127\.0\.0\.1:\d+: '
                             r'SET with a key of 8193 bytes; the limit is 8192\n\Z')

    def test_the_wildcard_address_serves_ipv4_and_ipv6(self):
        with StoreProcess('--bind', '::') as store:
            for address in ('127.0.0.1', '::1'):
                self.assertEqual(greet(address, store.port), b'ping')

    def test_one_address_is_bound_and_no_other(self):
        with StoreProcess('--bind', '127.0.0.2') as store:
            self.assertEqual(greet('127.0.0.2', store.port), b'ping')
            with self.assertRaises(ConnectionRefusedError):
                greet('127.0.0.1', store.port)


if __name__ == '__main__':
    unittest.main()
