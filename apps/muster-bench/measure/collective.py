# SPDX-License-Identifier: Apache-2.0
"""Block collective: compares operations of the collective library with MPI and gloo. Programs with
the same structure (ranks/) run one after the other in each round; results are compared bit by
bit."""
import os
from dataclasses import dataclass
from typing import Callable

from . import names as n
from .child import Failed, ForeignMeter, output_of
from .rounds import Rounds, parse_figures
from .series import QUICK, say
from .tables import Cell, Table

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
BUCKET = 25 * MIB  # bucket size of PyTorch's DDP
BUSY = 1.43  # maximum time of a copy relative to the best one (70 % of its rate)
IN_A_ROW = 50  # repetitions of sums that are too short to time alone
WIDTHS = {'f32': 4, 'bf16': 2, 'f16': 2, 'f64': 8, 'i32': 4, 'i64': 8, 'i8': 1}


@dataclass
class Timed:
    """A cell for the ranks: [OPERATION:]TYPE:BYTES, where BYTES is the size of the larger
    buffer."""
    bytes: int
    dtype: str = 'f32'
    operation: str = 'all_reduce'

    def key(self):
        name = f'{self.dtype}:{self.bytes}'
        return name if self.operation == 'all_reduce' else f'{self.operation}:{name}'

    def word(self, ranks, slow):
        """The cell with its numbers of repetitions and batches. Small sums are too short to time
        alone, so many run in a row, as long as the values stay exact. Large ones start from fresh
        data each time."""
        in_a_row = 1
        if self.bytes <= 4 * KIB:
            doublings = 20 if self.dtype == 'f16' else 200
            in_a_row = min(IN_A_ROW, max(1, doublings // ranks.bit_length()))
            batches = 20 if slow else 200
        elif self.bytes <= MIB:
            batches = 20 if slow else 100
        elif self.bytes <= BUCKET:
            batches = 4 if slow else 12
        else:
            batches = 3 if self.bytes < GIB else 1
        return f'{self.key()}:{in_a_row}:{batches}'


@dataclass
class Contender:
    name: str
    installed: bool
    command: Callable  # (ranks) → command line
    slow: bool = False
    narrow: bool = True  # supports 16-bit floats


def contenders(peers):
    def ours(name, mode):
        return Contender(name, bool(peers.ranks), lambda ranks: [peers.ranks, ranks, mode])

    return [
        ours(n.PRIVATE, 'private'), ours(n.LIBRARY, 'library'), ours(n.TCP, 'tcp'),
        Contender(n.OPEN_MPI, bool(peers.open_mpi and peers.ranks_open_mpi),
                  lambda ranks: [peers.open_mpi, '--oversubscribe', '--bind-to', 'none', '-n',
                                 ranks, peers.ranks_open_mpi], narrow=False),
        Contender(n.MPICH, bool(peers.hydra and peers.ranks_mpich),
                  lambda ranks: [peers.hydra, '-n', ranks, peers.ranks_mpich], narrow=False),
        Contender(n.GLOO, bool(peers.torch_python),
                  lambda ranks: [peers.torch_python, peers.ranks_gloo, ranks, 'sums'], slow=True),
        ours(n.MEMCPY, 'copy'), ours(n.BARE_TCP, 'bare')]


def size_name(size):
    for unit, name in ((GIB, 'GiB'), (MIB, 'MiB'), (KIB, 'KiB')):
        if size >= unit:
            return f'{size // unit} {name}'
    return f'{size} B'


class Sweep:
    """Runs the same cells with every contender, one program after the other in each round."""

    def __init__(self, peers, cells, ranks=2, without=()):
        self.peers, self.cells, self.ranks = peers, cells, ranks
        self.contenders = [one for one in contenders(peers) if one.name not in without]
        self.keys = [cell.key() for cell in cells]
        self.rounds = Rounds()

    def turn(self, contender):
        crowded = self.ranks > os.cpu_count()
        command = contender.command(self.ranks) + [
            cell.word(self.ranks, contender.slow or crowded) for cell in self.cells
            if contender.narrow or WIDTHS[cell.dtype] != 2]
        try:
            return parse_figures(output_of(command, self.peers.environ))
        except Failed as error:
            say(f'    {contender.name}: {error}')
            return {}

    def run(self, count):
        self.meter = ForeignMeter()
        for _ in range(count):
            for one in self.contenders:
                if one.installed:
                    self.rounds.by_peer.setdefault(one.name, []).append(self.turn(one))
                else:
                    self.rounds.missing[one.name] = 'not installed'
        return self

    def fill(self, table, without=()):
        for one in self.contenders:
            if one.name not in without:
                self.rounds.fill_row(table, one.name, self.keys)
        return table

    def bus_share(self, operation):
        """The share of the larger buffer that crosses the slowest link: busbw in nccl-tests."""
        others = (self.ranks - 1) / self.ranks
        return {'all_reduce': 2 * others, 'broadcast': 1}.get(operation, others)

    def bandwidth_of(self, times):
        table = Table(f'{times.id}-bandwidth', f'Bus bandwidth, {self.ranks} ranks',
                      'GB/s', times.columns,
                      'busbw of nccl-tests: bytes / time (algbw) · 2(n−1)/n for all_reduce, · 1 '
                      'for broadcast, · (n−1)/n for the others.')
        for name, cells in times.rows.items():
            table.rows[name] = [
                Cell([timed.bytes / sample / 1e3 * self.bus_share(timed.operation)
                      for sample in cell.samples], cell.missing, cell.failures)
                for timed, cell in zip(self.cells, cells)]
        return table


def noted(meter, *tables):
    for table in tables:
        table.foreign = [meter.percent()] * len(table.columns)
    return list(tables)


def measure_sizes(peers, effort):
    sizes = [4, KIB, 64 * KIB, MIB, 4 * MIB, 16 * MIB, BUCKET]
    sizes += [] if effort.storm == QUICK.storm else [100 * MIB, GIB]
    sweep = Sweep(peers, [Timed(size) for size in sizes]).run(effort.rounds)
    rounds, keys = sweep.rounds, sweep.keys
    dropped = rounds.drop_disturbed(n.MEMCPY, Timed(BUCKET).key(), BUSY)
    columns = [size_name(size) for size in sizes]
    table = sweep.fill(Table(
        'collective', 'All-reduce in place, f32 sum, 2 ranks on one host', 'µs', columns,
        f'Slowest rank, median over the batches of a round. Up to 4 KiB {IN_A_ROW} sums in a row, '
        'larger ones each from fresh data. Every element of every result is compared. Ranks are '
        f'not pinned; pages of 4 KiB. {dropped} of {effort.rounds} rounds excluded because copying '
        'was 30 % slower than in the best round.'))
    ratios = Table('collective-ratios', 'Time of one peer over another, round by round', '×',
                   columns, 'Medians of the ratios within each round. Above 1, the first of the '
                   'two is slower.')
    mpi = (n.OPEN_MPI, n.MPICH)
    for name, others, peer in ((n.GLOO_OVER_PRIVATE, [n.GLOO], n.PRIVATE),
                               (n.GLOO_OVER_LIBRARY, [n.GLOO], n.LIBRARY),
                               (n.GLOO_OVER_TCP, [n.GLOO], n.TCP),
                               (n.MPI_OVER_PRIVATE, mpi, n.PRIVATE),
                               (n.OPEN_MPI_OVER_PRIVATE, mpi[:1], n.PRIVATE),
                               (n.MPI_OVER_LIBRARY, mpi, n.LIBRARY),
                               (n.MEMCPY_OVER_PRIVATE, [n.MEMCPY], n.PRIVATE),
                               (n.BARE_OVER_TCP, [n.BARE_TCP], n.TCP)):
        rounds.fill_ratio(ratios, name, others, peer, keys)
    return noted(sweep.meter, table, ratios, sweep.bandwidth_of(table))


def measure_more_ranks(peers, effort):
    sizes = (KIB, 64 * KIB, MIB, BUCKET)
    sweep = Sweep(peers, [Timed(size) for size in sizes], ranks=4).run(effort.rounds)
    table = sweep.fill(Table('collective-4',
                             f'All-reduce in place, 4 ranks on {os.cpu_count()} CPUs', 'µs',
                             [size_name(size) for size in sizes]))
    return noted(sweep.meter, table, sweep.bandwidth_of(table))


def measure_operations(peers, effort):
    cells = [Timed(size, operation=operation)
             for operation in ('broadcast', 'all_gather', 'reduce_scatter', 'all_to_all')
             for size in (KIB, MIB, BUCKET)]
    sweep = Sweep(peers, cells, without=(n.LIBRARY, n.MEMCPY, n.BARE_TCP)).run(effort.rounds)
    table = sweep.fill(Table(
        'collective-operations', 'Other operations, f32, 2 ranks, plain memory', 'µs',
        [f'{cell.operation} {size_name(cell.bytes)}' for cell in cells],
        'Sizes are those of the larger buffer. Out of place, except for broadcast.'))
    return noted(sweep.meter, table, sweep.bandwidth_of(table))


def measure_types(peers, effort):
    cells = [Timed(BUCKET // 4 * width, dtype) for dtype, width in WIDTHS.items()]
    sweep = Sweep(peers, cells).run(effort.rounds)
    columns = list(WIDTHS)
    table = sweep.fill(Table('collective-types', 'All-reduce of 6,553,600 elements by type', 'µs',
                             columns, 'MPI has no 16-bit floats.'), (n.MEMCPY, n.BARE_TCP))
    ratios = Table('collective-types-ratios', 'Time over f32 with the same count', '×', columns)
    for name in (n.PRIVATE, n.LIBRARY, n.GLOO):
        f32 = sweep.keys[:1] * len(sweep.keys)
        sweep.rounds.fill_ratio(ratios, name, [name], name, f32, other_keys=sweep.keys)
    return noted(sweep.meter, table, ratios)


def take_run(cell, contender, key, command, environ):
    """Takes one sample from a run that prints a single figure."""
    if not contender.installed:
        cell.missing = 'not installed'
        return
    try:
        cell.samples.append(parse_figures(output_of(command, environ))[key])
    except (Failed, KeyError) as error:
        cell.failures += 1
        say(f'    {contender.name}: {error}')


def measure_deaths(peers, effort):
    table = Table('collective-death', 'From SIGKILL of one of 3 ranks until the others have an '
                  'error', 'µs', ['victim of 16 MiB', 'victim of 2 GiB'])
    rows = [one for one in contenders(peers) if one.name in (n.PRIVATE, n.GLOO)]
    meter = ForeignMeter()
    # Take more samples than elsewhere, because the result depends on scheduler time slices.
    for _ in range(3 * effort.rounds):
        for one in rows:
            for cell, mib in zip(table.row(one.name), ('16', '2048')):
                take_run(cell, one, 'death', one.command(3)[:-1] + ['death', mib], peers.environ)
    return noted(meter, table)


def measure_overlap(peers, effort):
    table = Table('collective-overlap', 'GradientSync, 25 MiB in 50 tensors: communication not '
                  'hidden by a backward pass that takes twice as long', '%',
                  ['backward on a device', 'backward on all processors'],
                  'The additional time of a step with sums, over the time of the sums alone. With '
                  'a device, the CPUs are idle during the backward pass. If it uses all CPUs, sums '
                  'compete with it, so nothing can be hidden.')
    meter = ForeignMeter()
    for _ in range(effort.rounds):
        try:
            figures = parse_figures(output_of([peers.ranks, '2', 'overlap'], peers.environ))
        except Failed as error:
            figures = {}
            say(f'    {n.GRADIENT_SYNC}: {error}')
        for cell, key in zip(table.row(n.GRADIENT_SYNC), ('device', 'cpu')):
            if key in figures:
                cell.samples.append(figures[key])
            else:
                cell.failures += 1
    return noted(meter, table)


def measure_gpu(_peers, _effort):
    """Returns a placeholder row, because this block does not use a GPU."""
    table = Table('collective-gpu', 'Overhead of our all-reduce over the bare NCCL call', 'µs',
                  ['added'], 'Measured on a GPU host by `scripts/gpu-check`.')
    table.row(n.NCCL)[0].missing = 'see gpu-check'
    return [table]


def measure_collective(peers, effort):
    """Compares all-reduce with MPI, gloo and memcpy; also measures death detection and overlap."""
    tables = []
    for what, measure in (('sizes', measure_sizes), ('4 ranks', measure_more_ranks),
                          ('operations', measure_operations), ('types', measure_types),
                          ('deaths', measure_deaths), ('overlap', measure_overlap),
                          ('gpu', measure_gpu)):
        say(f'  {what}')
        tables += measure(peers, effort)
    return tables
