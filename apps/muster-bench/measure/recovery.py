# SPDX-License-Identifier: Apache-2.0
"""Block recovery: DDP jobs whose ranks are killed again and again. Each job runs once, alone."""
import array
import os
import random
import signal
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path

from . import names as n
from .child import Child, Failed, ForeignMeter, Scratch, family_of, output_of, wait_until
from .series import say
from .step_log import Kill, done_by, last_step, read_steps, recovery_ms
from .tables import Table

RANKS = 4
BETWEEN_S = 2
WINDOWS = 6  # columns of the goodput over time
WARM_UP_STEPS = 100
START_S = 120
RESTARTS = 100_000
MIB = (1, 16, 256)


@dataclass
class Way:
    """A program that trains, and how it is launched."""
    row: str
    launcher: str
    options: list
    mode: str  # as in ranks/recovery.py
    backend: str = 'gloo'
    commit_steps: int = 1
    is_killed: bool = True


@dataclass
class Run:
    begin: int  # in nanoseconds, when all ranks train
    ranks: list  # the steps of each rank
    kills: list = field(default_factory=list)
    weights: dict = field(default_factory=dict)  # by step
    foreign: float = 0

    def done(self, seconds):
        """Steps in this time from the beginning."""
        end = self.begin + int(seconds * 1e9)
        return done_by(self.ranks, end) - done_by(self.ranks, self.begin)


def ways_of(peers):
    by_rank = ['--restart=rank']
    with_spare = [*by_rank, '--warm', '--spare-workers=1']
    return [Way(n.REPLACED_WARM, peers.muster, [*by_rank, '--warm'], 'elastic'),
            Way(n.REPLACED_RARELY, peers.muster, [*by_rank, '--warm'], 'elastic', 'gloo', 10),
            Way(n.COMMITS, peers.muster, [*by_rank, '--warm'], 'elastic', is_killed=False),
            Way(n.REPLACED, peers.muster, by_rank, 'elastic'),
            Way(n.REPLACED_MUSTER, peers.muster, [*by_rank, '--warm'], 'elastic', 'muster'),
            Way(n.REPLACED_SPARE, peers.muster, with_spare, 'elastic'),
            Way(n.REPLACED_SPARE_MUSTER, peers.muster, with_spare, 'elastic', 'muster'),
            Way(n.RESTARTED, peers.muster, ['--warm'], 'checkpoint'),
            Way(n.RESTARTED_TORCHRUN, peers.torchrun, [], 'checkpoint')]


def environment(peers, cache):
    package = peers.ranks_recovery.parents[3] / 'lib/python'
    library = peers.build / 'lib/collective/libmuster_collective.so'
    return dict(peers.environ, PYTHON_EXEC=peers.torch_python, PYTHONPATH=str(package),
                MUSTER_COLLECTIVE_LIBRARY=str(library), OMP_NUM_THREADS='1',
                XDG_CACHE_HOME=str(cache))


def stay(child, seconds):
    """Waits. Failed: the job ends."""
    try:
        child.wait(max(0, seconds))
    except subprocess.TimeoutExpired:
        return
    raise Failed(f'the job exited with code {child.returncode}')


def all_are_at(folder, number):
    return all(last and last.number >= number
               for last in (last_step(folder, rank) for rank in range(RANKS)))


def kill(child, folder, rank):
    """None if the rank is not running."""
    process = last_step(folder, rank).process
    if process not in family_of(child.pid):
        return None
    done = Kill(rank, process, time.monotonic_ns())
    os.kill(process, signal.SIGKILL)
    return done


def wait_for_recovery(folder, killed, end):
    """If the rank's next process has completed two steps, all ranks have completed the first."""
    def next_step():
        last = last_step(folder, killed.rank)
        return last if last.process != killed.process else None

    what = f'rank {killed.rank} trains again'
    first = wait_until(next_step, end - time.monotonic(), what)
    wait_until(lambda: next_step().number > first.number, end - time.monotonic(), what)


def kill_ranks(child, folder, end):
    """Kills a random rank, and again 2 s after each recovery, until this monotonic time."""
    chance, kills = random.Random(1), []
    while time.monotonic() + BETWEEN_S < end:
        stay(child, BETWEEN_S)
        killed = kill(child, folder, chance.randrange(RANKS))
        if killed:
            kills.append(killed)
            try:
                wait_for_recovery(folder, killed, end)
            except Failed as error:
                say(f'    {error}')
    stay(child, end - time.monotonic())
    return kills


def train(peers, way, seconds, cache):
    say(f'  {way.row}')
    with Scratch() as scratch:
        folder, meter, kills = Path(scratch), ForeignMeter(), []
        command = [way.launcher, f'--nproc-per-node={RANKS}', f'--max-restarts={RESTARTS}',
                   *way.options, peers.ranks_recovery, folder, way.mode, way.backend,
                   way.commit_steps]
        with Child(command, environment(peers, cache)) as child:
            wait_until(lambda: all_are_at(folder, WARM_UP_STEPS) or child.poll() is not None,
                       START_S, 'all ranks train')
            begin = time.monotonic_ns()
            if way.is_killed:
                kills = kill_ranks(child, folder, begin / 1e9 + seconds)
            else:
                stay(child, seconds)
            child.stop()
        weights = {int(path.name.split('-')[1]): path.read_bytes()
                   for path in folder.glob('weights-*[0-9]')}
        return Run(begin, [read_steps(folder, rank) for rank in range(RANKS)], kills, weights,
                   meter.percent())


def difference(run, undisturbed):
    """The largest difference between weights after the last step that both runs have saved, in
    millionths of the largest weight; 0 if all bits are equal. None if there is no such step."""
    steps = run.weights.keys() & undisturbed.weights.keys()
    if not steps:
        return None
    mine, other = (one.weights[max(steps)] for one in (run, undisturbed))
    if mine == other:
        return 0
    pairs = list(zip(array.array('f', mine), array.array('f', other)))
    return 1e6 * max(abs(a - b) for a, b in pairs) / max(abs(b) for _, b in pairs)


def fill(tables, row, run, undisturbed, seconds):
    times, goodput, weights = tables
    recoveries = [each for each in (recovery_ms(run.ranks, one) for one in run.kills)
                  if each is not None]
    cells = times.row(row)
    cells[0].samples = recoveries
    cells[0].missing = 'failed' if run.kills and not recoveries else ''
    if recoveries:
        cells[1].samples = [sorted(recoveries)[len(recoveries) * 99 // 100]]
    cells[2].samples = [len(run.kills)]
    for at, cell in enumerate(goodput.row(row)):
        span = seconds * (at + 1) / WINDOWS
        cell.samples = [100 * run.done(span) / undisturbed.done(span)]
    apart = difference(run, undisturbed)
    weights.row(row)[0].samples = [] if apart is None else [apart]


def empty_tables(seconds):
    parts = [f'after {seconds * (at + 1) // WINDOWS} s' for at in range(WINDOWS - 1)]
    return (Table('recovery', 'From SIGKILL to a rank until all ranks have completed a step', 'ms',
                  ['each kill', '99th percentile', 'number of kills'],
                  f'DDP, {RANKS} ranks on one node, 0.9 MB of weights, Adam, steps of at least 5 '
                  f'ms, {seconds} s, gloo and a commit in each step unless the row says '
                  f'otherwise. A random rank is killed, and again {BETWEEN_S} s after each '
                  'recovery.'),
            Table('recovery-goodput', 'Steps of the job, over those of an undisturbed job', '%',
                  [*parts, 'whole run'],
                  'Neither repeated nor lost steps count. The undisturbed job saves no state, and '
                  'has the same backend. '
                  'Checkpoints: every 100 steps, in memory.'),
            Table('recovery-weights', 'Weights, compared with the undisturbed job',
                  '10⁻⁶ of the largest weight', ['largest difference'],
                  '0: all bits are equal. After the last 500th step of both jobs.'))


def kills_tables(peers, effort, cache):
    tables, undisturbed = empty_tables(effort.kill_seconds), {}

    def run(way):
        done = train(peers, way, effort.kill_seconds, cache)
        for table in tables:
            table.foreign = [max([done.foreign, *table.foreign])] * len(table.columns)
        return done

    for way in ways_of(peers):
        missing = '' if way.launcher and peers.torch_python else 'not installed'
        try:
            if not missing and way.backend not in undisturbed:
                undisturbed[way.backend] = run(
                    Way(f'undisturbed, {way.backend}', peers.muster, ['--warm'], 'plain',
                        way.backend, is_killed=False))
            if not missing:
                fill(tables, way.row, run(way), undisturbed[way.backend], effort.kill_seconds)
        except Failed as error:
            say(f'    {error}')
            missing = 'failed'
        if missing:
            for cell in [cell for table in tables for cell in table.row(way.row)]:
                cell.missing = missing
    return tables


def commit_table(peers, effort, cache):
    table = Table('recovery-commit', 'A commit of one array', 'ms', [f'{mib} MiB' for mib in MIB],
                  'One process. memcpy copies to memory that was used before.')
    if not peers.torch_python:
        return table
    meter = ForeignMeter()
    text = output_of([peers.torch_python, peers.ranks_commit, effort.rounds],
                     environment(peers, cache))
    rows = {'memcpy': n.COPY, 'copy': n.COPY_NEW, 'State': n.COMMIT, 'TorchState': n.COMMIT_TORCH}
    for line in text.splitlines():
        way, mib, milliseconds = line.split('; ')
        table.row(rows[way])[MIB.index(int(mib))].samples.append(float(milliseconds))
    table.foreign = [meter.percent()] * len(table.columns)
    return table


def measure_recovery(peers, effort):
    """Measures jobs that lose ranks, and commits."""
    with Scratch() as cache:
        return [*kills_tables(peers, effort, cache), commit_table(peers, effort, cache)]
