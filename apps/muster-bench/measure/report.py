# SPDX-License-Identifier: Apache-2.0
"""A whole run as files: results.md, results.csv and a plot for each table."""
from pathlib import Path

from . import goals, plot
from .series import say
from .tables import QUIET_PERCENT, csv_of, markdown_of


def markdown_of_report(report):
    text = ['# Measured by muster-bench', '', *(f'- {each}' for each in report.conditions), '',
            'Median (least–greatest). A star marks a column during which other programs used more '
            f'than {QUIET_PERCENT} % of the machine.', '', '## Goals', '',
            goals.markdown_of(goals.judge(report)), '## Figures', '',
            '\n'.join(map(markdown_of, report.tables))]
    return '\n'.join(text)


def save(report, folder):
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / 'results.md').write_text(markdown_of_report(report))
    (folder / 'results.csv').write_text(csv_of(report))
    if not plot.matplotlib_is_there():
        say('no plots: this python has no matplotlib - scripts/install_deps bench')
        return
    for table in report.tables:
        if table.has_samples():
            plot.save_plot(table, folder / f'{table.id}.svg')
