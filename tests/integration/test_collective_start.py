# SPDX-License-Identifier: Apache-2.0
"""A rank that dies while a communicator is made: the others end at once and name it, long before
the time for a start is over. Some ranks are played by this test, so that they die where it says."""
import os
import re
import socket
import struct
import subprocess
import unittest

from test_collective import CTL, Job, free_port
from test_collective_faults import keys, store, until

HELLO = 0x316c6c6f4354534d
CONTROL = 2


def pretended(rank):
    return f'h{rank // 2}'


def alone(rank):
    return f'h{rank}'


class Played:
    """A rank without a program: a process that only lives, whose words the test writes."""

    def __init__(self, rank, host, port):
        self.rank, self.host, self.endpoint = rank, host, f'127.0.0.1:{port}'
        self.process = subprocess.Popen(['sleep', '1000'])
        self.prefix = until(lambda: re.search(r'^(.*/)hosts/\d+$', keys(port), re.MULTILINE))[1]

    def ask(self, *words):
        done = subprocess.run([CTL, 'store', words[0], self.endpoint, *words[1:]],
                              stdout=subprocess.PIPE, text=True, timeout=60, check=True)
        return done.stdout

    def come(self):
        space = os.stat('/proc/self/ns/pid').st_ino
        self.ask('set', f'{self.prefix}hosts/{self.rank}',
                 f'{self.process.pid}/{space} {self.host}')

    def show_address(self, port):
        self.ask('set', f'{self.prefix}tcp/{self.rank}', f'127.0.0.1 {port} 1')

    def reach(self, other):
        """Its control connection to another rank."""
        key = f'{self.prefix}tcp/{other}'
        until(lambda: f'{key}\n' in self.ask('keys'))
        address, port, token = self.ask('get', key).split()
        control = socket.create_connection((address, int(port)))
        control.sendall(struct.pack('=QQiI', HELLO, int(token), self.rank, CONTROL))
        return control

    def __enter__(self):
        return self

    def die(self):
        self.process.kill()
        self.process.wait()

    def __exit__(self, *_):
        self.die()


class Starts(unittest.TestCase):
    def job(self, port, later, host):
        return Job(4, 'sums', port=port, later=later, INIT_TIMEOUT='10m', HOST=host)

    def assert_all_name(self, victim, job):
        for rank, process in enumerate(job.ranks):
            if process is not None and rank != victim:
                self.assertRegex(process.communicate(timeout=60)[0],
                                 rf'^error peer_failed rank {victim} .*rank {victim}\b')

    def test_before_all_have_come(self):
        for host in ('one', pretended):
            for victim in (0, 1):
                with self.subTest(host=host, victim=victim), store() as (_, port):
                    with self.job(port, (3,), host) as job:
                        until(lambda: all(f'hosts/{rank}\n' in keys(port) for rank in range(3)))
                        job.ranks[victim].kill()
                        self.assert_all_name(victim, job)

    def test_before_it_has_taken_the_memory(self):
        for host, giver in (('one', 0), (pretended, 2)):
            with self.subTest(host=host), store() as (_, port), self.job(port, (3,), host) as job:
                with Played(3, host if host == 'one' else host(3), port) as victim:
                    victim.come()
                    until(lambda: f'memory/{giver}\n' in keys(port))
                    victim.die()
                    self.assert_all_name(3, job)

    def test_before_it_has_given_the_memory(self):
        with store() as (_, port), self.job(port, (2,), pretended) as job:
            with Played(2, pretended(2), port) as victim:
                victim.come()
                until(lambda: 'memory/0\n' in keys(port))
                victim.die()
                self.assert_all_name(2, job)

    def test_before_all_are_connected(self):
        """Nobody shares its host: only its connections tell of it."""
        with store() as (_, port), self.job(port, (3,), alone) as job:
            with Played(3, alone(3), port) as victim:
                victim.come()
                victim.show_address(free_port())
                connections = [victim.reach(rank) for rank in (0, 1, 2)]
                for connection in connections:
                    connection.close()
                self.assert_all_name(3, job)

    def test_before_the_others_have_reached_it(self):
        """Rank 0 would wait for it; it hears of it from those that are refused."""
        with store() as (_, port), self.job(port, (1,), alone) as job:
            with Played(1, alone(1), port) as victim:
                victim.come()
                victim.show_address(free_port())
                self.assert_all_name(1, job)


if __name__ == '__main__':
    unittest.main()
