# SPDX-License-Identifier: Apache-2.0
"""Block hosts: multi-host jobs started from one shell. The hosts are loopback addresses, and the
remote shell runs its command locally. So only the launchers' own work is timed."""
import os
from contextlib import contextmanager

from . import names as n
from .child import Scratch
from .nodes import NAP_S, form_hydra, time_of
from .series import Contestant, run_columns
from .tables import Table

RSH = '''#!/bin/sh
# [OPTION]... HOST COMMAND...
while [ "${1#-}" != "$1" ]; do shift; done
shift
exec /bin/sh -c "$*"
'''
LEASE_S = 300  # with hundreds of agents on few CPUs, waits may exceed the default lease


def addresses(count):
    return [f'127.0.{at // 64 + 1}.{at % 64 + 1}' for at in range(count)]


@contextmanager
def remote_shell():
    with Scratch() as folder:
        path = os.path.join(folder, 'rsh')
        with open(path, 'w', encoding='utf-8') as script:
            script.write(RSH)
        os.chmod(path, 0o755)
        yield path


def start_by_muster(peers, hosts):
    with remote_shell() as rsh:
        return time_of(peers, peers.muster, '--hosts', ','.join(hosts), '--rsh', rsh,
                       f'--rdzv-conf=lease={LEASE_S}', '--no-python', '/bin/true')


def start_by_hydra(peers, hosts):
    with remote_shell() as rsh:
        return form_hydra(peers, hosts, 'ssh', '-launcher-exec', rsh)


def start_by_pdsh(peers, hosts):
    return time_of(peers, peers.pdsh, '-R', 'exec', '-f', '256', '-w', ','.join(hosts),
                   '/bin/sh', '-c', '/bin/true')


def measure_hosts(peers, effort):
    """Measures `true` on 2, 32 and 256 hosts, started from one shell."""
    table = Table('hosts', 'N hosts from one shell, 1 × true each, start to last exit', 'ms',
                  ['2', '32', '256'],
                  'The remote shell runs its command locally. pdsh only starts a command on each '
                  'host: no ranks, no environment, no supervision. mpiexec.hydra runs '
                  f'`sleep {NAP_S}`, which is subtracted.')

    def contestants_of(column):
        hosts = addresses(int(column))
        return [Contestant(name, bool(program), lambda start=start: start(peers, hosts))
                for name, program, start in ((n.MUSTER, peers.muster, start_by_muster),
                                             (n.HYDRA, peers.hydra, start_by_hydra),
                                             (n.PDSH, peers.pdsh, start_by_pdsh))]

    run_columns(table, contestants_of, effort)
    return [table]
