# SPDX-License-Identifier: Apache-2.0
"""Runs the rows of one column in turn (A B C A B C …), measures the CPU use of other programs, and
repeats the column if it was disturbed. Keeps the attempt with the least disturbance."""
import sys
import time
from dataclasses import dataclass, replace
from typing import Callable

from .child import Failed, ForeignMeter
from .tables import QUIET_PERCENT, Cell, Table

FAILURES_MAX = 2
BUDGET_S = 20  # per contestant and column


@dataclass
class Effort:
    """How much each block measures; less with --quick."""
    rounds: int = 5
    slow_rounds: int = 5  # for programs that take seconds
    repeat_until: float = 0  # monotonic time after which nothing is repeated
    repeats: int = 2  # maximum repetitions of a disturbed column
    seconds: float = 0.3  # duration of one rate measurement
    storm: int = 10_000
    flood_mib: float = 32  # written by each rank of the log pump
    port_jobs: int = 100_000
    watched: float = 10  # seconds for which a job is observed
    deaths: int = 40  # killed workers per job
    kill_seconds: int = 600  # for which ranks of a job are killed

    def once(self):
        """The effort for figures that other programs do not affect."""
        return replace(self, rounds=1, repeats=0)


QUICK = Effort(rounds=3, slow_rounds=1, repeats=0, seconds=0.1, storm=2_000, flood_mib=8,
               port_jobs=10_000, watched=2, deaths=8, kill_seconds=60)


@dataclass
class Contestant:
    """One row of a column."""
    row: str
    installed: bool
    measure: Callable  # returns the samples of one round, or raises Failed
    slow: bool = False  # participates only in slow_rounds rounds


def say(text):
    print(text, file=sys.stderr, flush=True)


def take_turn(contestant, cell, spent):
    """Runs one round of one contestant. Returns the contestant's total time so far in seconds."""
    if not contestant.installed:
        cell.missing = 'not installed'
        return spent
    if cell.failures >= FAILURES_MAX or spent > BUDGET_S:
        return spent
    begin = time.monotonic()
    try:
        cell.samples += contestant.measure()
    except Failed as error:
        cell.failures += 1
        cell.missing = 'failed'
        say(f'    {contestant.row}: {error}')
    return spent + time.monotonic() - begin


def attempt(contestants, effort):
    cells = [Cell() for _ in contestants]
    spent = [0.0] * len(contestants)
    meter = ForeignMeter()
    for turn in range(effort.rounds):
        for at, contestant in enumerate(contestants):
            if not contestant.slow or turn < effort.slow_rounds:
                spent[at] = take_turn(contestant, cells[at], spent[at])
    return meter.percent(), cells


def run_column(table, column, contestants, effort):
    """Fills one column of the table; adds missing rows."""
    say(f'  {table.title}: {table.columns[column]}')
    best = attempt(contestants, effort)
    for _ in range(effort.repeats):
        if best[0] <= QUIET_PERCENT or time.monotonic() > effort.repeat_until:
            break
        say(f'    other programs used {best[0]:.0f} % of the CPUs; repeating')
        best = min(best, attempt(contestants, effort), key=lambda one: one[0])
    percent, cells = best
    for contestant, cell in zip(contestants, cells):
        table.row(contestant.row)[column] = cell
    table.foreign += [0.0] * (column + 1 - len(table.foreign))
    table.foreign[column] = percent


def run_columns(table, contestants_of, effort):
    """Fills all columns; contestants_of returns the contestants for the name of a column."""
    for column, name in enumerate(table.columns):
        run_column(table, column, contestants_of(name), effort)


def run_table(table, contestants, effort):
    """Like run_column, for contestants whose runs have samples for all columns: measure returns
    runs in the form {column: samples}."""
    whole = Table(table.id, table.title, table.unit, ['all columns'])
    run_column(whole, 0, contestants, effort)
    for name, (cell,) in whole.rows.items():
        for at, column in enumerate(table.columns):
            samples = [one for run in cell.samples for one in run.get(column, [])]
            table.row(name)[at] = Cell(samples, cell.missing, cell.failures)
    table.foreign = whole.foreign * len(table.columns)
