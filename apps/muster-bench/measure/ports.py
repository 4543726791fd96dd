# SPDX-License-Identifier: Apache-2.0
"""Block ports: many concurrent jobs take ports from one small range."""
from functools import cache

from . import names as n
from .child import tool
from .series import Contestant, run_column
from .tables import Table

AT_ONCE = 64
FIRST, LAST = 21000, 21199
COLUMNS = {'collisions': 'collisions', 'could not serve': 'lost', 'µs each': 'us'}


def measure_ports(peers, effort):
    """Counts ports that two jobs had at the same time."""
    table = Table('ports', f'{effort.port_jobs:,} jobs, {AT_ONCE} at a time, take ports from a '
                  f'range of {LAST - FIRST + 1}', 'see columns', list(COLUMNS),
                  'Held: as with --ports. Found: bound to check that it is free, released, and '
                  'listened on shortly after.')

    @cache
    def count(*more):
        return tool(peers, 'ports', '--port', FIRST, '--last-port', LAST, '--at-once', AT_ONCE,
                    '--jobs', effort.port_jobs, *more)

    for column, field in enumerate(COLUMNS.values()):
        run_column(table, column, [
            Contestant(row, bool(peers.tools),
                       lambda more=more, field=field: [count(*more)[field]])
            for row, more in ((n.HELD, ()), (n.FOUND, ('--probed',)))], effort.once())
    return [table]
