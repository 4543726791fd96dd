# SPDX-License-Identifier: Apache-2.0
"""Blocks launch, restart and pump: compares launchers on one host."""
import itertools
import os
import signal
from dataclasses import dataclass
from pathlib import Path

from . import names as n
from .child import Child, Failed, Scratch, family_of, memory_kib, output_of, tool, wait_until
from .notes import recoveries_of
from .series import Contestant, run_column
from .tables import Table

FEW_WORKERS = 8
HUNG_S = 10  # one of the other launchers hangs occasionally
SLOW_HUNG_S = 120
CRASHING = 8  # number of workers
CRASHES = 3  # number of crashes per launch
RANKS = 8  # number of ranks in the log pump benchmark
LINE = 100
BLOCK = 32_000  # bytes per write of bench-floor


@dataclass
class Launcher:
    """A launcher and its command line for non-Python workers."""
    name: str
    program: str
    before: list  # options before the count
    after: list  # options between the count and the worker's command
    slow: bool = False

    def command(self, workers, *worker):
        return [self.program, *self.before, str(workers), *self.after, *worker]


def launchers(peers):
    torch = (['--nproc-per-node'], ['--no-python'])
    open_mpi = ['--oversubscribe', '--allow-run-as-root', '-np']
    return [Launcher(n.FLOOR, peers.floor, ['spawn'], []),
            Launcher(n.MUSTER, peers.muster, *torch),
            Launcher(n.HYDRA, peers.hydra, ['-n'], []),
            Launcher(n.OPEN_MPI, peers.open_mpi, open_mpi, []),
            Launcher(n.TORCHRUN, peers.torchrun, *torch, slow=True),
            Launcher(n.FT_LAUNCHER, peers.ft_launcher, *torch, slow=True)]


def times_of(peers, command, repetitions):
    """Milliseconds from before the spawn until the program has been reaped."""
    each = HUNG_S if repetitions > 1 else SLOW_HUNG_S
    return tool(peers, 'time', '--repeat', repetitions, '--timeout', each, '--', *command,
                timeout=repetitions * each + 10)['ms']


def launch_table(peers, effort):
    table = Table('launch', 'Launch of N × true, start to exit', 'ms', ['1', '2', '8', '64'])
    for column, workers in enumerate(map(int, table.columns)):
        contestants = []
        for one in launchers(peers):
            repetitions = 1 if one.slow else 3 if workers > FEW_WORKERS else 10
            command = one.command(workers, '/bin/true')
            contestants.append(Contestant(
                one.name, bool(one.program),
                lambda command=command, times=repetitions: times_of(peers, command, times),
                one.slow))
        run_column(table, column, contestants, effort)
    return table


def help_table(peers, effort):
    table = Table('help', 'Showing the help text', 'ms', ['--help'])
    run_column(table, 0, [
        Contestant(one.name, bool(one.program),
                   lambda one=one: times_of(peers, [one.program, '--help'], 1 if one.slow else 10),
                   one.slow)
        for one in launchers(peers) if one.name != n.FLOOR], effort)
    return table


def is_program(pid, path):
    try:
        return os.readlink(f'/proc/{pid}/exe') == os.path.realpath(path)
    except OSError:
        return False


def noted(path, count):
    return Path(path).exists() and Path(path).read_text().count('\n') >= count


def memory_of(peers, launcher):
    """Peak memory of all processes of the launcher except the workers, in MB."""
    with Scratch() as scratch:
        notes = os.path.join(scratch, 'starts')
        with Child(launcher.command(2, peers.floor, 'idle', notes), peers.environ) as child:
            wait_until(lambda: noted(notes, 2), 30, 'two workers start')
            family = family_of(child.pid)
            workers = [pid for pid in family if is_program(pid, peers.floor)]
            kib = sum(memory_kib(pid, 'VmHWM') for pid in family if pid not in workers)
            pidfds = [os.pidfd_open(pid) for pid in workers]
            child.stop()
            for pidfd in pidfds:  # one launcher leaves its workers running, so kill them
                try:
                    signal.pidfd_send_signal(pidfd, signal.SIGKILL)
                except ProcessLookupError:
                    pass
                os.close(pidfd)
    return [kib * 1024 / 1e6]


def memory_table(peers, effort):
    table = Table('memory', "Memory of the launcher's processes, 2 workers", 'MB', ['peak'],
                  'Sum of the peak resident sizes of all processes of the launcher.')
    run_column(table, 0, [Contestant(one.name, bool(one.program),
                                     lambda one=one: memory_of(peers, one), one.slow)
                          for one in launchers(peers) if one.name != n.FLOOR], effort.once())
    return table


def measure_launch(peers, effort):
    """Measures 1, 2, 8 and 64 copies of `true` from start to exit, --help, and the launcher's
    memory with two workers."""
    return [launch_table(peers, effort), help_table(peers, effort), memory_table(peers, effort)]


def crash_under(peers, launcher, seed):
    with Scratch() as scratch:
        notes = Path(scratch, 'notes')
        try:
            output_of([launcher, f'--nproc-per-node={CRASHING}', f'--max-restarts={CRASHES}',
                       '--no-python', peers.floor, 'crash', notes, CRASHES, seed], peers.environ)
        finally:
            recoveries = recoveries_of(notes.read_text() if notes.exists() else '', CRASHING)
    if not recoveries:
        raise Failed(f'{launcher} completed no restart')
    return recoveries


def measure_restart(peers, effort):
    """Measures the time from a worker's death until all workers of the group run again."""
    table = Table('restart', "From a worker's crash until all workers run again", 'ms',
                  [f'{CRASHING} workers'],
                  f'{CRASHES} crashes in each launch, at varied phases of any polling interval; no '
                  'other launcher here restarts workers.')
    run_column(table, 0, [
        Contestant(name, bool(program),
                   lambda program=program, seeds=itertools.count():
                   crash_under(peers, program, next(seeds)), slow)
        for name, program, slow in ((n.MUSTER, peers.muster, False),
                                    (n.TORCHRUN, peers.torchrun, True),
                                    (n.FT_LAUNCHER, peers.ft_launcher, True))], effort)
    return [table]


def pump(peers, size, *command):
    """The workers' output rate in MB/s, from start to exit."""
    done = tool(peers, 'time', '--drain', '--timeout', SLOW_HUNG_S, '--', *command)
    expected = RANKS * size // LINE
    if done['lines'] != expected:
        raise Failed(f'{done["lines"]} lines on the console instead of {expected}')
    return [RANKS * size / 1e3 / done['ms'][0]]


def measure_pump(peers, effort):
    """Measures lines from eight ranks that go to files and the console at the same time."""
    size = int(effort.flood_mib * 1024 * 1024) // BLOCK * BLOCK
    table = Table('pump', 'Output of 8 ranks that write as fast as they can', 'MB/s',
                  ['file and console'],
                  f'{size // 1_000_000} MB per rank in lines of {LINE} bytes. Files are in memory; '
                  'the console is a pipe that the bench drains, counting every line. muster also '
                  'prefixes each line; cat writes to one destination only.')

    def muster():
        with Scratch() as folder:
            return pump(peers, size, peers.muster, f'--nproc-per-node={RANKS}', '--tee=3',
                        f'--log-dir={folder}/logs', '--no-python', peers.floor, 'flood', size)

    def loop(mover):
        with Scratch() as folder:
            each = f'{peers.floor} flood {size} | {mover.format(folder=folder)}'
            return pump(peers, size, '/bin/sh', '-c',
                        f'for i in 0 1 2 3 4 5 6 7; do {each} & done; wait')

    run_column(table, 0, [
        Contestant(n.MUSTER, bool(peers.muster), muster),
        Contestant(n.TEE, bool(peers.tee), lambda: loop(peers.tee + ' {folder}/$i.log')),
        Contestant(n.CAT, bool(peers.cat), lambda: loop(peers.cat))], effort)
    return [table]
