# SPDX-License-Identifier: Apache-2.0
"""Block warm: workers that import PyTorch, started cold or forked from a preloaded parent (--warm).
"""
import time
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


class Launch:
    """Runs one job of a launcher and returns its times and memory."""

    def __init__(self, peers, launcher, options, workers, cache, *words):
        with Scratch() as scratch:
            folder = Path(scratch)
            environ = dict(peers.environ, PYTHON_EXEC=peers.torch_python, XDG_CACHE_HOME=str(cache))
            begin = time.monotonic_ns()
            output_of([launcher, f'--nproc-per-node={workers}', f'--max-restarts={CRASHES}',
                       *options, peers.ranks_warm, folder, CRASHES, *words], environ, HUNG_S)
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
    """Creates four tables from the jobs that import PyTorch, and four from those that also take a
    step of DDP. One DDP job runs before these, so that muster has learned its imports."""
    with Scratch() as cache:
        tables = measure(peers, effort, 'warm', 'imported PyTorch', WORKERS, cache)
        if peers.muster and peers.torch_python:
            Launch(peers, peers.muster, ['--warm'], DDP_WORKERS[0], cache, 'ddp')
        return tables + measure(peers, effort, 'warm-ddp', 'taken a step of DDP', DDP_WORKERS,
                                cache, 'ddp')


def measure(peers, effort, name, what, counts, cache, *words):
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
            launches[name].append(Launch(peers, launcher, options, workers, cache, *words))
            return [launches[name][-1].first]

        run_column(first, column, [
            Contestant(name, bool(program and peers.torch_python),
                       lambda each=(name, program, options): launch(*each), True)
            for name, program, options in contenders], effort)
        for name, done in launches.items():
            for way, table in enumerate(again):
                table.row(name)[column].samples = [one.recoveries[way] for one in done]
                if not done:
                    table.row(name)[column].missing = first.row(name)[column].missing
            memory.row(name)[column].samples = [one.megabytes for one in done]
            if not done:
                memory.row(name)[column].missing = first.row(name)[column].missing
    return [first, *again, memory]
