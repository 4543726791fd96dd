# SPDX-License-Identifier: Apache-2.0
"""The collective library when ranks are killed or stopped in each phase, the store is gone, or
memory is exhausted: every remaining rank gets an error with the reason, in bounded time."""
import contextlib
import itertools
import os
import re
import resource
import signal
import subprocess
import tempfile
import time
import unittest

from test_collective import CTL, MUSTER, PUPPET, Job, eventually, free_port
from cases import limited
from store_process import StoreProcess

WAYS = {'shm': {}, 'tcp': {'BACKEND': 'tcp'}, 'hier': {'HOST': lambda rank: f'h{rank // 2}'}}


@contextlib.contextmanager
def store():
    """(process, port) of a separate store."""
    with StoreProcess('--bind', '127.0.0.1') as server:
        yield server.process, server.port


def until(condition):
    """For events without a notification."""
    return eventually(condition, 'the event')


def keys(port):
    done = subprocess.run([CTL, 'store', 'keys', f'127.0.0.1:{port}'], stdout=subprocess.PIPE,
                          text=True, timeout=60)
    return done.stdout


class Killed(unittest.TestCase):
    def assert_survivors_name(self, job, victim):
        for rank, process in enumerate(job.ranks):
            if rank != victim:
                text = process.communicate(timeout=60)[0]
                self.assertRegex(text, f'error peer_failed rank {victim} .*rank {victim} ')

    def kill_one(self, victim, ranks, kind, **variables):
        with Job(ranks, 'for-ever', kind, **variables) as job:
            for process in job.ranks:
                self.assertIn('begins', process.stdout.readline())
            job.ranks[victim].kill()
            self.assert_survivors_name(job, victim)

    def test_inside_operations_of_every_kind(self):
        for way, variables in WAYS.items():
            for kind in ('small', 'staged', 'direct', 'async', 'gradients'):
                for victim in (0, 3):
                    with self.subTest(way=way, kind=kind, victim=victim):
                        # Rank 0 does not serve the store here, so its death is only that of a rank.
                        with store() as (_, port):
                            self.kill_one(victim, 4, kind, port=port, **variables)

    def test_inside_all_other_operations(self):
        for way, variables in WAYS.items():
            for number, kind in enumerate(('reduce', 'broadcast', 'gathers', 'all-to-all',
                                           'transfers', 'alloc')):
                with self.subTest(way=way, kind=kind), store() as (_, port):
                    self.kill_one(number % 4, 4, kind, port=port, **variables)

    def kill_rank_1(self, kind, variables, expected):
        with store() as (_, port):
            with Job(4, 'for-ever', kind, port=port, **variables) as job:
                for process in job.ranks:
                    self.assertIn('begins', process.stdout.readline())
                job.ranks[1].kill()
                for rank in (0, 2, 3):
                    self.assertRegex(job.ranks[rank].communicate(timeout=50)[0], expected)

    def test_while_communicators_are_split(self):
        """Ranks that wait for others at the new communicator also learn it from the old one."""
        for (way, variables), kind in itertools.product(WAYS.items(), ('splits', 'rebind')):
            for again in range(3):
                with self.subTest(way=way, kind=kind, again=again):
                    self.kill_rank_1(kind, variables, 'error peer_failed rank 1 ')

    def test_while_communicators_are_rebuilt(self):
        """If ranks that already know about a death do not join a new communicator, it times out."""
        for way, variables in WAYS.items():
            with self.subTest(way=way):
                self.kill_rank_1('rebuild', {**variables, 'INIT_TIMEOUT': '5s'},
                                 r'error ((peer_failed|timeout) rank 1 |'
                                 r'timeout .* did not arrive in time: 0, 1\b)')

    def test_between_the_steps_of_a_start(self):
        """Rank 1 arrives and dies before the others meet; rank 0 is a separate case."""
        for way, variables in WAYS.items():
            for victim in (0, 1):
                with self.subTest(way=way, victim=victim), store() as (_, port):
                    with Job(4, 'sums', port=port, later=(3,), INIT_TIMEOUT='5s',
                             **variables) as job:
                        until(lambda: f'hosts/{victim}' in keys(port))
                        job.ranks[victim].kill()
                        job.ranks[victim].communicate()
                        job.ranks[3] = job.start(3)
                        for rank in {0, 1, 2, 3} - {victim}:
                            text = job.ranks[rank].communicate(timeout=60)[0]
                            self.assertRegex(text, r'^error (timeout|peer_failed) ')
                            # A rank that meets the others later also misses those that wait for it.
                            self.assertRegex(text, rf'rank {victim}\b|in time: .*\b{victim}\b')


class Stopped(unittest.TestCase):
    def test_a_rank_that_stops_and_continues_in_time_is_waited_for(self):
        for way, variables in WAYS.items():
            with self.subTest(way=way), Job(4, 'pause', **variables) as job:
                _, status = os.waitpid(job.ranks[1].pid, os.WUNTRACED)
                self.assertTrue(os.WIFSTOPPED(status), status)
                job.ranks[1].send_signal(signal.SIGCONT)
                self.assertEqual(job.outputs(), [f'all sums of 4 by {way}\n'] * 4)


class WithoutStore(unittest.TestCase):
    def test_that_never_was_there(self):
        began = time.monotonic()
        with Job(2, 'sums', port=free_port(), INIT_TIMEOUT='1s') as job:
            for text in job.outputs():
                self.assertRegex(text, '^error store rank -1 ')
        self.assertLess(time.monotonic() - began, 30)

    def test_gone_while_the_ranks_meet(self):
        with store() as (server, port), Job(2, 'sums', port=port, later=(1,)) as job:
            until(lambda: 'hosts/0' in keys(port))
            server.kill()
            # Much less than the 60 s for which it would wait for the other rank.
            self.assertRegex(job.ranks[0].communicate(timeout=30)[0], '^error store rank -1 ')

    def test_gone_later(self):
        """Operations need no descriptors. New communicators cannot be created, and existing ones
        are unaffected."""
        for way, variables in WAYS.items():
            with self.subTest(way=way), store() as (server, port):
                options = {'stdin': subprocess.PIPE}
                with Job(4, 'without-store', port=port, options=options, INIT_TIMEOUT='5s',
                         **variables) as job:
                    for process in job.ranks:
                        self.assertEqual(process.stdout.readline(), 'ready\n')
                    server.kill()
                    server.wait()
                    for process in job.ranks:
                        process.stdin.write('gone\n')
                        process.stdin.flush()
                    for text in job.outputs():
                        self.assertRegex(text,
                                         '^sum ok, split store, rebuild store, sum ok: .*store')


class WithoutMemory(unittest.TestCase):
    def test_a_limit_on_the_sizes_of_files(self):
        """Shared memory counts as a file, so the kernel would kill the process with SIGXFSZ."""
        for limit in (1 << 10, 1 << 22):  # not even the flight recorder; not the arena
            options = {'preexec_fn': limited(resource.RLIMIT_FSIZE, limit)}
            with self.subTest(limit=limit):
                with Job(1, 'sums', options=options) as job:
                    self.assertRegex(job.outputs()[0],
                                     r'^error system rank -1 .*ulimit -f\), which also applies to '
                                     rf'shared memory, is {limit} bytes')

    def test_the_others_are_told_by_who_has_no_memory(self):
        with store() as (_, port):
            with Job(3, 'sums', port=port, later=(0,), options={}) as job:
                job.options = {'preexec_fn': limited(resource.RLIMIT_FSIZE, 1 << 22)}
                job.ranks[0] = job.start(0)
                outputs = job.outputs(timeout=30)  # not the startup timeout of 60 s
        self.assertRegex(outputs[0], '^error system .*ulimit -f')
        for text in outputs[1:]:
            self.assertRegex(text, '^error peer_failed rank 0 .*rank 0 could not start: '
                                   '.*ulimit -f')

    def test_nothing_is_wanted_of_dev_shm(self):
        """If /dev/shm is full, read-only or missing, the library uses memory elsewhere."""
        for state in ('mount -t tmpfs -o size=8k none /dev/shm; cat /dev/zero > /dev/shm/full',
                      'mount -t tmpfs -o ro none /dev/shm',
                      'mount -t tmpfs none /dev; mknod -m 666 /dev/null c 1 3; test ! -e /dev/shm'):
            def inside(*args, state=state):
                return subprocess.run(
                    ['unshare', '--mount', 'sh', '-c', f'{{ {state}; }} 2>/dev/null; exec "$@"',
                     'sh', *args], capture_output=True, text=True, timeout=60)
            if inside('sh', '-c', 'echo x > /dev/shm/probe').returncode == 0:
                self.skipTest('this user may not mount a small file system')
            with self.subTest(state=state):
                done = inside(MUSTER, '--nproc-per-node=2', PUPPET, 'sums')
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertEqual(len(re.findall(r'(?m)^sums [0-9a-f]+ of 2 by shm$', done.stdout)),
                                 2, done.stdout)

    def test_a_full_disk_below_the_flight_recorder(self):
        """Then the recorder is in ordinary memory, and no process dies of SIGBUS."""
        with tempfile.TemporaryDirectory() as folder:
            script = f'mount -t tmpfs -o size=64k none {folder} && exec "$@"'
            allowed = subprocess.run(['unshare', '--mount', 'sh', '-c', script, 'sh', 'true'],
                                     stderr=subprocess.PIPE)
            if allowed.returncode != 0:
                self.skipTest('this user may not mount a small file system')
            environ = {**os.environ, 'RANK': '0', 'WORLD_SIZE': '1',
                       'MUSTER_COLLECTIVE_FLIGHT_DIR': folder}
            done = subprocess.run(
                ['unshare', '--mount', 'sh', '-c', script, 'sh', 'sh', '-c',
                 f'"{PUPPET}" sums; ls {folder}'], env=environ, stdout=subprocess.PIPE, text=True)
            self.assertRegex(done.stdout, r'^sums [0-9a-f]+ of 1 by shm\n$')
