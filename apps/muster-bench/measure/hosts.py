# SPDX-License-Identifier: Apache-2.0
"""Block hosts: jobs on many machines, started from one shell. The machines are loopback addresses,
and the remote shell runs its command here, so that what is timed is the launchers' own work."""
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
LEASE_S = 300  # hundreds of agents on few processors may each wait for longer than the usual one


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
    """2, 32, 256 machines × true, from one shell."""
    table = Table('hosts', 'N machines from one shell, 1 × true each, start to last exit', 'ms',
                  ['2', '32', '256'],
                  'The remote shell runs its command on this machine. pdsh starts a command on '
                  'each machine and nothing else: no ranks, no environment, nobody who looks '
                  f'after them. mpiexec.hydra runs `sleep {NAP_S}`, which is taken off.')
    for column, count in enumerate(map(int, table.columns)):
        run_column(table, column, [
            Contestant(n.MUSTER, bool(peers.muster),
                       lambda count=count: start_by_muster(peers, count)),
            Contestant(n.HYDRA, bool(peers.hydra),
                       lambda count=count: start_by_hydra(peers, count)),
            Contestant(n.PDSH, bool(peers.pdsh),
                       lambda count=count: start_by_pdsh(peers, count))], effort)
    return [table]
