# SPDX-License-Identifier: Apache-2.0
"""Block ddp: PyTorch's DistributedDataParallel and all_reduce, over gloo and over "muster"
(compiled and in Python). One job per column; its ranks alternate between variants
(ranks/torch_ddp.py).
"""
from . import names as n
from .child import Failed, ForeignMeter, output_of
from .series import say
from .tables import Cell, Table

MODELS = {'mlp': 'MLP, 0.27 M', 'gpt': 'GPT, 5 M', 'cnn': 'CNN, 11 M'}
CALLS = {'sync': 'all_reduce', 'async': 'all_reduce, async + wait'}
HUNG_S = 600
WAYS = {'gloo': n.GLOO, 'gloo, bucket views': n.GLOO + ', bucket views',
        'python': n.TORCH_PYTHON, 'compiled': n.TORCH_COMPILED,
        'compiled, bucket views': n.TORCH_COMPILED + ', bucket views',
        'compiled, in a thread': n.TORCH_COMPILED + ', in a thread',
        'alone': n.DDP_ALONE, 'none': 'no DDP, no communication'}


def figures_of(text):
    """{(variant, what): microseconds in each round}."""
    found = {}
    for line in text.splitlines():
        way, what, time_us = line.split('; ')
        found.setdefault((way, what), []).append(float(time_us))
    return found


def run_job(peers, effort, ranks, words):
    """The figures of one job, and the CPU share of other programs in percent."""
    package = peers.ranks_ddp.parents[3] / 'lib/python'
    library = peers.build / 'lib/collective/libmuster_collective.so'
    environ = dict(peers.environ, PYTHON_EXEC=peers.torch_python, PYTHONPATH=str(package),
                   MUSTER_COLLECTIVE_LIBRARY=str(library), OMP_NUM_THREADS='1')
    meter = ForeignMeter()
    text = output_of([peers.muster, f'--nproc-per-node={ranks}', peers.ranks_ddp, effort.rounds,
                      *words], environ, HUNG_S)
    return figures_of(text), meter.percent()


def fill(table, column, what, job):
    figures, percent = job
    for way, row in WAYS.items():
        if (way, what) in figures:
            table.row(row)[column].samples = figures[way, what]
    table.foreign.append(percent)


def ratios_of(table):
    """The ratio of each variant's time to gloo's in the same round."""
    made = Table(table.id + '-ratios', table.title + ": over gloo's", '×', table.columns)
    for name, cells in table.rows.items():
        if name != n.GLOO:
            for at, (cell, gloo) in enumerate(zip(cells, table.rows[n.GLOO])):
                made.row(name)[at] = Cell([one / other for one, other in
                                           zip(cell.samples, gloo.samples)], cell.missing)
    made.foreign = table.foreign
    return made


def steps_table(peers, effort, ranks):
    name = 'ddp' if ranks == 2 else f'ddp-{ranks}'
    table = Table(name, f'A step of DistributedDataParallel, {ranks} ranks', 'µs',
                  list(MODELS.values()),
                  'Slowest rank, median over the steps of a round. With two ranks, the parameters '
                  'are compared with gloo bit by bit. DDP of one rank is the cost of DDP itself, a '
                  'lower bound for every backend.')
    for column, model in enumerate(MODELS):
        say(f'  {table.title}: {model}')
        fill(table, column, model, run_job(peers, effort, ranks, [model]))
    return table


def calls_table(peers, effort):
    table = Table('ddp-calls', 'all_reduce of 1 KiB through torch.distributed, 2 ranks', 'µs',
                  list(CALLS.values()), 'In a hot loop: 500 calls in a row, 20 over gloo.')
    job = run_job(peers, effort, 2, ['calls'])
    for column, word in enumerate(CALLS):
        fill(table, column, word, job)
    return table


def measure_ddp(peers, effort):
    """Measures steps of three models with two and four ranks, and single calls."""
    if not peers.torch_python:
        missing = Table('ddp', 'A step of DistributedDataParallel', 'µs', list(MODELS.values()))
        for cell in missing.row(n.GLOO):
            cell.missing = 'not installed'
        return [missing]
    try:
        two, four = (steps_table(peers, effort, ranks) for ranks in (2, 4))
        return [two, ratios_of(two), four, ratios_of(four), calls_table(peers, effort)]
    except Failed as error:
        say(f'    {error}')
        return []
