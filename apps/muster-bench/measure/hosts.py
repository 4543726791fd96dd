# SPDX-License-Identifier: Apache-2.0
"""Block hosts: multi-host jobs started from one shell. The hosts are loopback addresses, and the
remote shell runs its command locally. So only the launchers' own work is timed."""
import os
from contextlib import contextmanager

from . import names as n
from .child import Scratch, tool
from .nodes import NAP_S
from .series import Contestant, run_column
from .tables import Table

RSH = '''#!/bin/sh
# [OPTION]... HOST COMMAND...
while [ "${1#-}" != "$1" ]; do shift; done
shift
exec /bin/sh -c "$*"
'''
LEASE_S = 300  # with hundreds of agents on few CPUs, waits may exceed the default lease


def addresses(count):
    return ','.join(f'127.0.{at // 64 + 1}.{at % 64 + 1}' for at in range(count))


@contextmanager
def remote_shell():
    with Scratch() as folder:
        path = os.path.join(folder, 'rsh')
        with open(path, 'w', encoding='utf-8') as script:
            script.write(RSH)
        os.chmod(path, 0o755)
        yield path


def time_of(peers, *command):
    return tool(peers, 'time', '--timeout', 120, '--', *command, timeout=150)['ms']


def start_by_muster(peers, count):
    with remote_shell() as rsh:
        return time_of(peers, peers.muster, '--hosts', addresses(count), '--rsh', rsh,
                       f'--rdzv-conf=lease={LEASE_S}', '--no-python', '/bin/true')


def start_by_hydra(peers, count):
    with remote_shell() as rsh:
        times = time_of(peers, peers.hydra, '-launcher', 'ssh', '-launcher-exec', rsh, '-hosts',
                        addresses(count), '-ppn', '1', '-n', count, '/bin/sleep', NAP_S)
    return [ms - NAP_S * 1000 for ms in times]


def start_by_pdsh(peers, count):
    return time_of(peers, peers.pdsh, '-R', 'exec', '-f', '256', '-w', addresses(count),
                   '/bin/sh', '-c', '/bin/true')


def measure_hosts(peers, effort):
    """2, 32, 256 hosts × true, from one shell."""
    table = Table('hosts', 'N hosts from one shell, 1 × true each, start to last exit', 'ms',
                  ['2', '32', '256'],
                  'The remote shell runs its command locally. pdsh only starts a command on each '
                  'host: no ranks, no environment, no supervision. mpiexec.hydra runs '
                  f'`sleep {NAP_S}`, which is subtracted.')
    for column, count in enumerate(map(int, table.columns)):
        run_column(table, column, [
            Contestant(n.MUSTER, bool(peers.muster),
                       lambda count=count: start_by_muster(peers, count)),
            Contestant(n.HYDRA, bool(peers.hydra),
                       lambda count=count: start_by_hydra(peers, count)),
            Contestant(n.PDSH, bool(peers.pdsh),
                       lambda count=count: start_by_pdsh(peers, count))], effort)
    return [table]
