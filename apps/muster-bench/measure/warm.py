# SPDX-License-Identifier: Apache-2.0
"""Block warm: workers that import PyTorch, started cold or forked from a preloaded parent (--warm).
"""
import time
from dataclasses import dataclass
from pathlib import Path

from . import names as n
from .child import Failed, Scratch, output_of
from .notes import notes_of, recoveries_of
from .series import Contestant, run_column
from .tables import Table

WORKERS = (1, 2, 8, 16)
DDP_WORKERS = (2, 8, 16)
CRASHES = 2  # per launch: one exit, one SIGKILL
HUNG_S = 300
STEPS = 30_000  # of a DDP job, for the cost of --warm while it trains


@dataclass
class Program:
    """A worker program, and the Python that runs it."""
    python: str
    path: Path
    words: tuple = ()

    def run(self, peers, launcher, options, workers, folder, crashes, cache):
        """Runs one job, with muster's learned imports in `cache`."""
        environ = dict(peers.environ, PYTHON_EXEC=self.python, XDG_CACHE_HOME=str(cache))
        output_of([launcher, f'--nproc-per-node={workers}', f'--max-restarts={CRASHES}', *options,
                   self.path, folder, crashes, *self.words], environ, HUNG_S)


class Launch:
    """Runs one job of a launcher and returns its times and memory."""

    def __init__(self, peers, launcher, options, workers, cache, program):
        with Scratch() as scratch:
            folder = Path(scratch)
            begin = time.monotonic_ns()
            program.run(peers, launcher, options, workers, folder, CRASHES, cache)
            text = (folder / 'notes').read_text()
            shares = [int(file.read_text()) for file in folder.glob('pss*')]
        first = [note.nanoseconds for note in notes_of(text)
                 if note.event == 'start' and note.number == 0]
        self.recoveries = recoveries_of(text, workers)
        if len(first) != workers or len(shares) != workers or len(self.recoveries) != CRASHES:
            raise Failed(f'{launcher} did not start and restart all {workers} workers')
        self.first = (max(first) - begin) / 1e6
        self.megabytes = sum(shares) * 1024 / 1e6


def measure_warm(peers, effort):
    """Creates four tables for each program: one that imports PyTorch, one that also takes a step of
    DDP, and one each that takes a step with transformers' and with Lightning's Trainer. One job
    runs before those that take a step, so that muster has learned their imports."""
    imports = Program(peers.torch_python, peers.ranks_warm)
    ddp = Program(peers.torch_python, peers.ranks_warm, ('ddp',))
    transformers = Program(peers.frameworks_python, peers.ranks_transformers)
    lightning = Program(peers.frameworks_python, peers.ranks_lightning)
    with Scratch() as cache:
        tables = measure(peers, effort, 'warm', 'imported PyTorch', WORKERS, cache, imports)
        for name, what, counts, program in (
                ('warm-ddp', 'taken a step of DDP', DDP_WORKERS, ddp),
                ('warm-transformers', "taken a step of transformers' Trainer", (2,), transformers),
                ('warm-lightning', "taken a step of Lightning's Trainer", (2,), lightning)):
            if peers.muster and program.python:
                Launch(peers, peers.muster, ['--warm'], counts[0], cache, program)
            tables += measure(peers, effort, name, what, counts, cache, program)
        return [*tables, measure_steps(peers, effort, cache)]


def measure_steps(peers, effort, cache):
    """Steps of a DDP job with and without --warm. One worker, because two wait for each other, and
    CPU time, because a wait lasts 0.2 to 0.5 ms depending on the CPU's idle state."""
    program = Program(peers.torch_python, peers.ranks_warm, ('steps', STEPS))

    def mean(options):
        with Scratch() as scratch:
            program.run(peers, peers.muster, options, 1, Path(scratch), 0, cache)
            return [float((Path(scratch) / 'step').read_text()) * 1e6]

    table = Table('warm-steps', f'CPU time of a DDP step: mean of {STEPS} steps', 'µs',
                  ['1 worker'])
    run_column(table, 0, [
        Contestant(name, bool(peers.muster and program.python), lambda each=options: mean(each))
        for name, options in ((n.MUSTER_WARM, ['--warm']), (n.MUSTER, []))], effort)
    return table


def measure(peers, effort, name, what, counts, cache, program):
    columns = [f'{workers} workers' for workers in counts]
    first = Table(f'{name}-first', f'From start until all workers have {what}', 'ms', columns)
    again = [Table(f'{name}-restart', f'From sys.exit(1) in a worker until all have {what} again',
                   'ms', columns, 'Includes the shutdown of its Python interpreter.'),
             Table(f'{name}-killed', f'From SIGKILL to a worker until all have {what} again', 'ms',
                   columns)]
    memory = Table(f'{name}-memory', 'Memory of the workers, shared pages counted once', 'MB',
                   columns, 'Sum of their proportional set sizes in the last attempt.')
    contenders = ((n.MUSTER_WARM, peers.muster, ['--warm']), (n.MUSTER, peers.muster, []),
                  (n.TORCHRUN, peers.torchrun, []))
    for column, workers in enumerate(counts):
        launches = {name: [] for name, _, _ in contenders}

        def launch(name, launcher, options):
            launches[name].append(Launch(peers, launcher, options, workers, cache, program))
            return [launches[name][-1].first]

        run_column(first, column, [
            Contestant(name, bool(launcher and program.python),
                       lambda each=(name, launcher, options): launch(*each), True)
            for name, launcher, options in contenders], effort)
        for name, done in launches.items():
            for way, table in enumerate(again):
                table.row(name)[column].samples = [one.recoveries[way] for one in done]
                if not done:
                    table.row(name)[column].missing = first.row(name)[column].missing
            memory.row(name)[column].samples = [one.megabytes for one in done]
            if not done:
                memory.row(name)[column].missing = first.row(name)[column].missing
    return [first, *again, memory]
