# SPDX-License-Identifier: Apache-2.0
"""Bar plots of tables as SVG: median with minimum and maximum, on a logarithmic scale."""
from . import names as n
from .tables import readable

OTHERS = ('#4c6ef5', '#12b886', '#be4bdb', '#e0a800', '#0b9bd1', '#e64980')
BAR = 0.8  # bar width as a fraction of its slot
LEGEND_COLUMNS = 4


def matplotlib_is_there():
    try:
        import matplotlib
    except ImportError:
        return False
    matplotlib.use('svg')
    # With these settings, equal figures produce identical files, and text is not drawn as paths.
    matplotlib.rcParams.update({'svg.hashsalt': 'muster', 'svg.fonttype': 'none', 'font.size': 9})
    return True


def colour_of(at, name):
    """muster is highlighted, lower bounds are grey, and every other program has its own colour."""
    if name.startswith('muster'):
        return '#e8590c'
    return '#868e96' if name in (n.FLOOR, n.ECHO) else OTHERS[at % len(OTHERS)]


def draw_bar(axes, x, cell, colour):
    """Draws one bar with its range, or the reason why it is missing."""
    median = cell.median()
    if not median or median <= 0:
        axes.text(x, 0.02, cell.missing or 'not measured', rotation=90, ha='center', va='bottom',
                  fontsize=7, color='#6e7781', transform=axes.get_xaxis_transform())
        return None
    low, high = median - max(min(cell.samples), median / 1e6), max(cell.samples) - median
    bar = axes.bar(x, median, BAR, color=colour, yerr=[[low], [high]], capsize=2,
                   error_kw={'linewidth': 0.8})
    axes.annotate(readable(median), (x, median + high), (0, 2), textcoords='offset points',
                  ha='center', fontsize=7)
    return bar


def save_plot(table, path):
    """Call matplotlib_is_there() first."""
    from matplotlib import pyplot
    from matplotlib.ticker import FuncFormatter
    group = len(table.rows) + 1
    width = max(6.5, 0.34 * group * len(table.columns) + 1)
    figure, axes = pyplot.subplots(figsize=(width, 4.6), layout='constrained')
    axes.set_yscale('log')
    bars = {}
    for at, (name, cells) in enumerate(table.rows.items()):
        for column, cell in enumerate(cells):
            bar = draw_bar(axes, column * group + at, cell, colour_of(at, name))
            bars.setdefault(name, bar or pyplot.Rectangle((0, 0), 1, 1, color=colour_of(at, name)))
    axes.set_xticks([column * group + (group - 2) / 2 for column in range(len(table.columns))],
                    [name + (' *' if table.disturbed(at) else '')
                     for at, name in enumerate(table.columns)])
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f'{value:,.10g}'))
    axes.margins(y=0.12)
    axes.grid(axis='y', color='#d0d7de', linewidth=0.6)
    axes.set_axisbelow(True)
    axes.spines[['top', 'right']].set_visible(False)
    legend_rows = -(-len(bars) // LEGEND_COLUMNS)
    axes.set_title(table.title, loc='left', fontsize=11, fontweight='bold',
                   pad=8 + 13 * legend_rows)
    axes.set_ylabel(f'{table.unit}; median, minimum and maximum')
    axes.legend(bars.values(), bars.keys(), ncols=LEGEND_COLUMNS, loc='lower left',
                bbox_to_anchor=(0, 1), frameon=False, fontsize=7)
    figure.savefig(path, metadata={'Date': None})
    pyplot.close(figure)
