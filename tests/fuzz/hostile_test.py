#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Hostile clients of a running muster-store: whatever they send or do not read, the server
survives, its memory stays within its limits, and a well-behaved client is still answered
correctly."""
import os
import random
import socket
import struct
import sys
import threading
import time
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / 'support'))
from store_process import TIMEOUT, StoreProcess, receive  # noqa: E402

GREETING = bytes.fromhex('00cef7853c')
SEED = int(os.environ.get('MUSTER_SEED', '20261121'))
MIB = 1 << 20
# Incomplete requests and unread replies may use 256 MiB; growing buffers may use twice that. The
# sanitizer keeps freed memory for a while and needs its own memory as well.
RESIDENT_MAX_KIB = 640 * 1024 if os.environ.get('MUSTER_SANITIZED') != '1' else 3 * 1024 * 1024


def text(value):
    return struct.pack('<Q', len(value)) + value


def set_request(key, value):
    return b'\x01' + text(key) + text(value)


def get_request(key):
    return b'\x03' + text(key)


def connect(store):
    return socket.create_connection(('127.0.0.1', store.port), timeout=TIMEOUT)


def send_as_much_as_taken(connection, data):
    """Sends until done or the server closes the connection. Waits if the server accepts no more."""
    try:
        connection.sendall(data)
        return True
    except (BrokenPipeError, ConnectionResetError):
        return False


def is_closed(connection):
    try:
        return connection.recv(1) == b''
    except ConnectionResetError:
        return True


class Innocent:
    """A client that sets and gets continuously until the end of its scope, and checks each
    answer."""

    def __init__(self, store):
        self.connection = connect(store)
        self.connection.sendall(GREETING)
        self.over = threading.Event()
        self.wrong = None
        self.rounds = 0
        self.thread = threading.Thread(target=self.run)

    def run(self):
        try:
            while not self.over.is_set():
                value = b'%d' % self.rounds
                self.connection.sendall(set_request(b'/innocent', value) +
                                        get_request(b'/innocent'))
                got = receive(self.connection, 8 + len(value))
                if got != text(value):
                    self.wrong = f'{got!r} in place of {text(value)!r}'
                    return
                self.rounds += 1
        except OSError as error:
            self.wrong = repr(error)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.over.set()
        self.thread.join(TIMEOUT)
        self.connection.close()


class Hostile(unittest.TestCase):
    def setUp(self):
        self.random = random.Random(SEED)
        self.store = StoreProcess().__enter__()
        self.addCleanup(self.store.__exit__)
        self.innocent = Innocent(self.store).__enter__()
        self.addCleanup(self.check_after)

    def check_after(self):
        rounds = self.innocent.rounds
        fresh = connect(self.store)
        fresh.sendall(GREETING + b'\x0dping')
        self.assertEqual(receive(fresh, 4), b'ping', f'MUSTER_SEED={SEED}')
        fresh.close()
        self.innocent.__exit__()
        self.assertIsNone(self.innocent.wrong, f'MUSTER_SEED={SEED}')
        self.assertGreaterEqual(self.innocent.rounds, rounds)
        self.assertGreater(self.innocent.rounds, 0)
        self.assertLess(self.store.resident_kib(), RESIDENT_MAX_KIB)
        self.assertEqual(self.store.stop(), 0, self.store.errors)
        self.assertNotIn('Sanitizer', self.store.errors)

    def check_memory_is_given_back(self):
        """After the clients that held it have disconnected. ASan keeps freed memory for a while."""
        end = time.monotonic() + TIMEOUT
        while os.environ.get('MUSTER_SANITIZED') != '1' and self.store.resident_kib() > 64 * 1024:
            self.assertLess(time.monotonic(), end, f'{self.store.resident_kib()} KiB are resident')
            time.sleep(0.01)

    def test_random_bytes_with_and_without_a_greeting(self):
        for number in range(300):
            with connect(self.store) as client:
                greeting = GREETING if number % 2 else b''
                send_as_much_as_taken(client, greeting + self.random.randbytes(2000))

    def test_requests_cut_anywhere_and_left_open(self):
        whole = GREETING + set_request(b'/cut', b'x' * 50) + b'\x06' + struct.pack('<Q', 2) + \
            text(b'/a') + text(b'/b') + b'\x04' + text(b'/n') + struct.pack('<q', 1)
        clients = []
        for end in range(1, len(whole)):
            clients.append(connect(self.store))
            clients[-1].sendall(whole[:end])
        for client in clients:
            client.close()

    def test_programs_that_speak_something_else(self):
        for data in (b'GET / HTTP/1.1\r\nHost: localhost\r\n\r\n', b'SSH-2.0-OpenSSH_9.2\r\n',
                      b'\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03' + bytes(200),
                      b'*1\r\n$4\r\nPING\r\n', b'\n', b'QUIT\r\n'):
            with self.subTest(data=data[:16]), connect(self.store) as client:
                send_as_much_as_taken(client, data)
                self.assertTrue(is_closed(client))

    def test_huge_lengths_are_refused_when_they_are_announced(self):
        for length in (8193, 1 << 31, 1 << 32, (1 << 63) - 1, 1 << 63, (1 << 64) - 1):
            size = struct.pack('<Q', length)
            for head in (b'\x03' + size, b'\x06' + struct.pack('<Q', 1) + size,
                         b'\x06' + struct.pack('<Q', max(length, 131073)),
                         b'\x0b' + struct.pack('<Q', length | 1 << 20)):
                with self.subTest(length=length, head=head[:1]), connect(self.store) as client:
                    client.sendall(GREETING + head)
                    self.assertTrue(is_closed(client))

    def test_ten_megabytes_of_rubbish_on_a_hundred_connections(self):
        rubbish = self.random.randbytes(10 * 1000 * 1000)
        clients = [connect(self.store) for _ in range(100)]
        for number, client in enumerate(clients):
            send_as_much_as_taken(client, (GREETING if number % 2 else b'') + rubbish)
            self.assertLess(self.store.resident_kib(), RESIDENT_MAX_KIB)
        for client in clients:
            client.close()

    def test_endless_values_on_a_hundred_connections(self):
        # Each is within all limits of a request and lacks its last byte: 800 MB in total.
        almost = GREETING + set_request(b'/endless', bytes(8 * MIB))[:-1]
        clients = [connect(self.store) for _ in range(100)]
        taken = 0
        for client in clients:
            taken += send_as_much_as_taken(client, almost)
            self.assertLess(self.store.resident_kib(), RESIDENT_MAX_KIB)
        self.assertGreater(taken, 20)
        for client in clients:
            client.close()
        self.check_memory_is_given_back()

    def test_readers_that_never_read(self):
        with connect(self.store) as setter:
            setter.sendall(GREETING + set_request(b'/large', bytes(8 * MIB)) + b'\x0dping')
            self.assertEqual(receive(setter, 4), b'ping')
        clients = []
        for _ in range(100):
            client = connect(self.store)
            clients.append(client)
            client.setblocking(False)
            try:
                for _ in range(1000):
                    client.send(GREETING + get_request(b'/large') * 50)
            except (BlockingIOError, BrokenPipeError, ConnectionResetError):
                pass
            self.assertLess(self.store.resident_kib(), RESIDENT_MAX_KIB)
        for client in clients:
            client.close()
        self.check_memory_is_given_back()

    def test_a_reader_that_comes_back_gets_all_its_answers(self):
        with connect(self.store) as client:
            client.sendall(GREETING + set_request(b'/value', b'v' * 1000))
            asked = threading.Thread(target=client.sendall,
                                     args=(get_request(b'/value') * 20000,))
            asked.start()
            got = receive(client, 20000 * 1008)
            asked.join(TIMEOUT)
        self.assertEqual(len(got), 20000 * 1008)
        self.assertEqual(got, (text(b'v' * 1000)) * 20000)

    def test_a_store_that_is_filled_refuses_more_and_serves_on(self):
        with connect(self.store) as client:
            client.sendall(GREETING)
            value = bytes(8 * MIB)
            # 1 GiB fits; the server closes the connection at the request that would exceed it.
            taken = sum(send_as_much_as_taken(client, set_request(b'/%d' % number, value))
                        for number in range(160))
            self.assertTrue(is_closed(client))
            self.assertLess(taken, 160)
        self.assertLess(self.store.resident_kib(), 1024 * 1024 + RESIDENT_MAX_KIB)
        with connect(self.store) as client:
            client.sendall(GREETING + b''.join(b'\x08' + text(b'/%d' % number)
                                               for number in range(160)))
            deleted = struct.unpack('<160q', receive(client, 160 * 8))
        self.assertGreater(sum(deleted), 100)

    def test_hundreds_of_silent_connections_keep_nobody_out(self):
        with StoreProcess(prefix=('prlimit', '--nofile=64:64')) as store:
            silent = [connect(store) for _ in range(900)]
            clients = []
            for number in range(32):  # more than is left besides what silent clients may hold
                clients.append(connect(store))
                clients[-1].sendall(GREETING + set_request(b'/%d' % number, b'v') +
                                    get_request(b'/%d' % number))
                self.assertEqual(receive(clients[-1], 9), text(b'v'))
            for connection in silent + clients:
                connection.close()

    def test_more_clients_than_descriptors_wait_their_turn(self):
        with StoreProcess(prefix=('prlimit', '--nofile=64:64')) as store:
            clients = []
            for _ in range(100):
                clients.append(connect(store))
                clients[-1].sendall(GREETING + b'\x07')
            for client in clients:
                self.assertEqual(receive(client, 8), struct.pack('<q', 0))
                client.close()
            self.assertEqual(store.stop(), 0)
            self.assertEqual(store.errors.count('\n'), 1, store.errors)
            self.assertIn('Too many open files', store.errors)

    def test_connections_that_come_and_go_leave_nothing(self):
        for _ in range(200):
            connect(self.store).close()
        before = self.store.resident_kib()
        for _ in range(3000):
            with connect(self.store) as client:
                client.sendall(GREETING + b'\x06' + struct.pack('<Q', 1) + text(b'/never'))
        with connect(self.store) as client:
            client.sendall(GREETING + b'\x07')
            keys = struct.unpack('<q', receive(client, 8))[0]
        self.assertLessEqual(keys, 1)
        slack = 4096 if os.environ.get('MUSTER_SANITIZED') != '1' else 128 * 1024
        self.assertLess(self.store.resident_kib(), before + slack)


if __name__ == '__main__':
    unittest.main()
