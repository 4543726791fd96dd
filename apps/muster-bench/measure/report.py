# SPDX-License-Identifier: Apache-2.0
"""Writes a complete run to files: results.md, results.csv and one plot per table."""
from pathlib import Path

from . import goals, plot
from .series import say
from .tables import QUIET_PERCENT, csv_of, markdown_of


def markdown_of_report(report):
    text = ['# Measured by muster-bench', '', *(f'- {each}' for each in report.conditions), '',
            'Median (minimum–maximum). A star marks columns during which other programs used more '
            f'than {QUIET_PERCENT} % of the CPUs.', '', '## Goals', '',
            goals.markdown_of(goals.judge(report)), '## Figures', '',
            '\n'.join(map(markdown_of, report.tables))]
    return '\n'.join(text)


def save(report, folder):
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / 'results.md').write_text(markdown_of_report(report))
    (folder / 'results.csv').write_text(csv_of(report))
    if not plot.matplotlib_is_there():
        say('no plots: matplotlib is not installed. Run scripts/install_deps bench')
        return
    for table in report.tables:
        if table.has_samples():
            plot.save_plot(table, folder / f'{table.id}.svg')
