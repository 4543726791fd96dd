# SPDX-License-Identifier: Apache-2.0
"""Results as values: one row per program, one column per size, samples in the cells. Printed as
Markdown and CSV. The row of a missing program stays and states the reason."""
import csv
import io
import math
import statistics
from dataclasses import dataclass, field

QUIET_PERCENT = 6  # columns with more CPU use by other programs are marked with a star
FEW_SAMPLES = 5  # a cell with fewer samples shows their number
OTHERS = 'CPU used by others, %'


@dataclass
class Cell:
    samples: list = field(default_factory=list)
    missing: str = ''  # why there are no samples: "not installed", "failed", "" if not measured
    failures: int = 0  # failed or hung attempts

    def median(self):
        return statistics.median(self.samples) if self.samples else None


@dataclass
class Table:
    id: str  # also the file name of the plot
    title: str
    unit: str
    columns: list
    note: str = ''
    rows: dict = field(default_factory=dict)  # {name: a cell per column}
    foreign: list = field(default_factory=list)  # percent per column; may be shorter

    def row(self, name):
        return self.rows.setdefault(name, [Cell() for _ in self.columns])

    def has_samples(self):
        return any(cell.samples for row in self.rows.values() for cell in row)

    def disturbed(self, column):
        return column < len(self.foreign) and self.foreign[column] > QUIET_PERCENT


@dataclass
class Report:
    conditions: list  # host, versions, options
    tables: list

    def cell(self, table, row, column):
        for each in self.tables:
            if each.id == table and row in each.rows and column in each.columns:
                return each.rows[row][each.columns.index(column)]
        return Cell()


def _three_digits(number):
    if number == 0:
        return '0'
    exponent = math.floor(math.log10(abs(number) * 1.0005))
    return f'{number:.{min(max(2 - exponent, 0), 4)}f}'


def readable(number):
    """Three significant digits, with k and M for large numbers: 0.412, 7.35, 153k, 2.68M."""
    if abs(number) >= 999_500:
        return _three_digits(number / 1e6) + 'M'
    return _three_digits(number / 1e3) + 'k' if abs(number) >= 9_995 else _three_digits(number)


def text_of(cell, disturbed):
    if not cell.samples:
        return cell.missing or '–'
    star = '*' if disturbed else ''
    few = f', n={len(cell.samples)}' if len(cell.samples) < FEW_SAMPLES else ''
    failed = f', {cell.failures} failed' if cell.failures else ''
    return (f'{readable(cell.median())}{star} ({readable(min(cell.samples))}–'
            f'{readable(max(cell.samples))}{few}{failed})')


def markdown_of(table):
    lines = [f'### {table.title} ({table.unit})', '', '|  | ' + ' | '.join(table.columns) + ' |',
             '|---' * (len(table.columns) + 1) + '|']
    for name, cells in table.rows.items():
        texts = [text_of(cell, table.disturbed(at)) for at, cell in enumerate(cells)]
        lines.append(f'| {name} | ' + ' | '.join(texts) + ' |')
    others = [f'*{table.foreign[at]:.0f}*' if at < len(table.foreign) else '–'
              for at in range(len(table.columns))]
    lines.append(f'| *{OTHERS}* | ' + ' | '.join(others) + ' |')
    return '\n'.join(lines + ([''] + [table.note] if table.note else [])) + '\n'


HEAD = ('table', 'row', 'column', 'unit', 'median', 'least', 'greatest', 'failures', 'missing',
        'samples')


def csv_of(report):
    """One line per cell, with all its samples in the last field, in chronological order."""
    out = io.StringIO()
    for condition in report.conditions:
        out.write(f'# {condition}\n')
    write = csv.writer(out, lineterminator='\n').writerow
    write(HEAD)
    for table in report.tables:
        for name, cells in table.rows.items():
            for column, cell in zip(table.columns, cells):
                summary = ((cell.median(), min(cell.samples), max(cell.samples))
                           if cell.samples else ('', '', ''))
                write((table.id, name, column, table.unit, *summary, cell.failures, cell.missing,
                       ' '.join(map(str, cell.samples))))
        for column, percent in zip(table.columns, table.foreign):
            write((table.id, OTHERS, column, '%', percent, percent, percent, 0, '', percent))
    return out.getvalue()
