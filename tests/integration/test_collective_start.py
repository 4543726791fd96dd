# SPDX-License-Identifier: Apache-2.0
"""A rank dies while a communicator is created: the others fail immediately and name it, long before
the startup timeout. This test plays some of the ranks, so that they die at specific points."""
import contextlib
import os
import re
import resource
import select
import socket
import struct
import subprocess
import unittest
from pathlib import Path

from test_collective import CTL, MUSTER, PUPPET, Job, free_port
from test_collective_faults import keys, store, until
import cases

HELLO = 0x326c6c6f4354534d
CONTROL = 2
WELCOME, MISMATCH = 0x100, 4  # codes of control messages


def pretended(rank):
    return f'h{rank // 2}'


def alone(rank):
    return f'h{rank}'


class Played:
    """A rank without a program: an idle process whose messages the test writes."""

    def __init__(self, rank, host, port):
        self.rank, self.host, self.endpoint = rank, host, f'127.0.0.1:{port}'
        self.process = subprocess.Popen(['sleep', '1000'])
        self.prefix = until(lambda: re.search(r'^(.*/)hosts/\d+$', keys(port), re.MULTILINE))[1]

    def ask(self, *args):
        done = subprocess.run([CTL, 'store', args[0], self.endpoint, *args[1:]],
                              stdout=subprocess.PIPE, text=True, timeout=60, check=True)
        return done.stdout

    def come(self):
        space = os.stat('/proc/self/ns/pid').st_ino
        self.ask('set', f'{self.prefix}hosts/{self.rank}',
                 f'{self.process.pid}/{space} {self.host}')

    def show_address(self, port):
        self.ask('set', f'{self.prefix}tcp/{self.rank}', f'127.0.0.1 {port} {1:032x}')

    def reach(self, other, lane=CONTROL):
        """Its connection to another rank, by default the control connection."""
        key = f'{self.prefix}tcp/{other}'
        until(lambda: f'{key}\n' in self.ask('keys'))
        address, port, secret = self.ask('get', key).split()
        control = socket.create_connection((address, int(port)))
        control.sendall(struct.pack('=Q16siI', HELLO, bytes.fromhex(secret), self.rank, lane))
        return control

    def __enter__(self):
        return self

    def die(self):
        self.process.kill()
        self.process.wait()

    def __exit__(self, *_):
        self.die()


@unittest.skipIf(b"__ubsan_" in Path(PUPPET).read_bytes(),
                 "the sanitizer opens pipes itself, to see which memory can be read")
class Descriptors(unittest.TestCase):
    """A rank that may open too few files reports that immediately, and all others report the same
    about it."""

    def lines(self, limit, limited):
        with store() as (_, port), Job(3, 'sums', port=port, later=(limited,), BACKEND='tcp',
                                       INIT_TIMEOUT='10m') as job:
            job.options = {'preexec_fn': cases.limited(resource.RLIMIT_NOFILE, limit)}
            job.ranks[limited] = job.start(limited)
            return [rank.communicate(timeout=60)[0] for rank in job.ranks]

    def test_each_limit_ends_in_sums_or_in_one_reason(self):
        for limited in (0, 1, 2):
            reasons = 0
            for limit in range(7, 40):
                lines = self.lines(limit, limited)
                if all(line.startswith('sums ') for line in lines):
                    break
                with self.subTest(limited=limited, limit=limit):
                    reasons += 1
                    texts = {re.sub(r'.* at \d+: ', '', line) for line in lines}
                    self.assertEqual(len(texts), 1, lines)
                    self.assertRegex(texts.pop(), f'^rank {limited} could not start: .*Too many '
                                     rf'open files .*limit: {limit} descriptors')
                    for rank, line in enumerate(lines):
                        code = 'system' if rank == limited else 'peer_failed'
                        self.assertRegex(line, f'^error {code} rank {limited} ')
            else:
                self.fail('no limit was enough')
            self.assertGreater(reasons, 4)


def control_message(code, seq=0, text=b''):
    return struct.pack('=IiiIQ', code, 0, 0, len(text), seq) + text


def unread(connection):
    """Bytes on this TCP connection that the other end has not read yet."""
    address, port = connection.getpeername()
    done = subprocess.run(['ss', '-Htn', 'src', f'{address}:{port}'], stdout=subprocess.PIPE,
                          text=True, check=True)
    return int(done.stdout.split()[1])


def listening(pid):
    """(address, port) of each TCP socket on which the process listens, according to the kernel."""
    done = subprocess.run(['ss', '-Hltnp'], stdout=subprocess.PIPE, text=True, check=True)
    lines = [line.split() for line in done.stdout.splitlines() if f'pid={pid},' in line]
    return [(line[3].rpartition(':')[0], int(line[3].rpartition(':')[2])) for line in lines]


class Ports(unittest.TestCase):
    def test_the_store_that_rank_0_serves_listens_at_its_address_alone(self):
        with Job(2, 'sums', later=(1,)) as job:
            self.assertEqual(until(lambda: listening(job.ranks[0].pid)), [('127.0.0.1', job.port)])

    def test_a_rank_listens_at_its_address_on_a_port_of_the_range(self):
        first = free_port()
        with store() as (_, port):
            with Job(2, 'sums', port=port, later=(1,), BACKEND='tcp', INIT_TIMEOUT='10m',
                     ADDRESS='127.0.0.3', PORT_RANGE=f'{first}-{first + 20}') as job:
                with Played(1, 'elsewhere', port) as other:
                    other.come()
                    sockets = until(lambda: listening(job.ranks[0].pid))
                    self.assertEqual([address for address, _ in sockets], ['127.0.0.3'])
                    self.assertTrue(first <= sockets[0][1] <= first + 20, sockets)

    def test_a_range_that_is_taken(self):
        with socket.socket() as taken:
            taken.bind(('127.0.0.1', 0))
            taken.listen()
            number = taken.getsockname()[1]
            with Job(2, 'sums', BACKEND='tcp', ADDRESS='127.0.0.1',
                     PORT_RANGE=lambda rank: '' if rank == 0 else f'{number}-{number}') as job:
                for line in job.outputs():
                    self.assertRegex(line, r'^error \w+ rank 1 .*rank 1 could not start: cannot '
                                     r'listen for the other ranks on 127\.0\.0\.1.* already in use')

    def test_a_range_that_is_none(self):
        for text in ('29500-29400', 'x', '0-5', '1-70000'):
            with Job(1, 'sums', PORT_RANGE=text) as job:
                self.assertIn(f"port range '{text}'", job.outputs()[0])

    def test_the_launcher_hands_on_its_range(self):
        first = free_port()
        done = subprocess.run([MUSTER, '--nproc-per-node=1', f'--port-range={first}-{first + 9}',
                               '--no-python', 'sh', '-c', 'echo $MUSTER_COLLECTIVE_PORT_RANGE'],
                              stdout=subprocess.PIPE, text=True, timeout=60, check=True)
        self.assertEqual(done.stdout, f'{first}-{first + 9}\n')


class Strangers(unittest.TestCase):
    def test_silent_connections_keep_nobody_from_starting(self):
        """Previously, each of them was waited for, one after the other."""
        with store() as (_, port), contextlib.ExitStack() as strangers:
            with Job(2, 'sums', port=port, later=(1,), BACKEND='tcp', ADDRESS='127.0.0.1',
                     INIT_TIMEOUT='20s', HOST=alone) as job:
                with Played(1, alone(1), port) as other:
                    other.come()
                    (address, number), = until(lambda: listening(job.ranks[0].pid))
                    for _ in range(40):
                        strangers.enter_context(socket.create_connection((address, number)))
                    other.show_address(free_port())
                    connections = [other.reach(0, lane) for lane in (2, 0, 1)]
                    self.assertEqual(job.ranks[0].poll(), None)
                    self.assertEqual(until(lambda: len(listening(job.ranks[0].pid)) == 0), True)
                    for connection in connections:
                        connection.close()
                    self.assertRegex(job.ranks[0].communicate(timeout=60)[0], 'peer_failed rank 1')


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
        """No rank shares its host, so only its connections reveal its death."""
        with store() as (_, port), self.job(port, (3,), alone) as job:
            with Played(3, alone(3), port) as victim:
                victim.come()
                victim.show_address(free_port())
                connections = [victim.reach(rank) for rank in (0, 1, 2)]
                for connection in connections:
                    connection.close()
                self.assert_all_name(3, job)

    def test_while_connections_wait_in_its_queue(self):
        """It cannot send the reason on connections that it never accepted, so the others check the
        store."""
        with store() as (_, port), self.job(port, (1,), alone) as job:
            queue = socket.create_server(('127.0.0.1', 0))
            with queue, Played(1, alone(1), port) as victim:
                victim.come()
                victim.show_address(queue.getsockname()[1])
                connections = [victim.reach(0, lane) for lane in (CONTROL, 0, 1)]
                select.select([queue], [], [], 60)
                victim.ask('set', f'{victim.prefix}failed', '2 1 rank 1 could not start: planted')
                queue.close()
                for rank in (0, 2, 3):
                    self.assertIn('rank 1 could not start: planted',
                                  job.ranks[rank].communicate(timeout=60)[0])
                for connection in connections:
                    connection.close()

    def test_a_welcome_comes_after_a_failure(self):
        """Ranks that have started may fail in an operation, which ends the others' first one."""
        with store() as (_, port), Job(3, 'sums', port=port, later=(1,), BACKEND='tcp',
                                       INIT_TIMEOUT='20s', HOST=alone) as job:
            queue = socket.create_server(('127.0.0.1', 0))
            queue.settimeout(60)
            with queue, Played(1, alone(1), port) as other:
                other.come()
                other.show_address(queue.getsockname()[1])
                lanes = [other.reach(0, lane) for lane in (CONTROL, 0, 1)]
                lanes += [queue.accept()[0] for _ in range(3)]
                control = lanes[3]  # it is the first one to which a rank connects
                control.sendall(control_message(MISMATCH, 7, b'planted'))
                until(lambda: unread(control) == 0)
                self.assertIsNone(job.ranks[2].poll())
                control.sendall(control_message(WELCOME))
                self.assertRegex(job.ranks[2].communicate(timeout=60)[0],
                                 r'^error mismatch rank 0 .*planted')
                for lane in lanes:
                    lane.close()

    def test_before_the_others_have_reached_it(self):
        """Rank 0 would wait for it, but learns about it from the ranks that are refused."""
        with store() as (_, port), self.job(port, (1,), alone) as job:
            with Played(1, alone(1), port) as victim:
                victim.come()
                victim.show_address(free_port())
                self.assert_all_name(1, job)
