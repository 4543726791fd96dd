# SPDX-License-Identifier: Apache-2.0
"""Command line: python -m measure [OPTIONS] BLOCK…, called by scripts/bench."""
import argparse
import os
import resource
import time
from dataclasses import replace
from pathlib import Path

from .collective import measure_collective
from .ddp import measure_ddp
from .hosts import measure_hosts
from .insight import measure_insight
from .launch import measure_launch, measure_pump, measure_restart
from .nodes import measure_crowds, measure_nodes, measure_scale
from .peers import Peers
from .ports import measure_ports
from .recovery import measure_recovery
from .report import save
from .series import QUICK, Effort, say
from .store import measure_store
from .tables import Report, markdown_of
from .warm import measure_warm

BLOCKS = {'launch': measure_launch, 'restart': measure_restart, 'warm': measure_warm,
          'recovery': measure_recovery, 'nodes': measure_nodes, 'hosts': measure_hosts,
          'crowds': measure_crowds, 'scale': measure_scale, 'store': measure_store,
          'collective': measure_collective, 'ddp': measure_ddp, 'pump': measure_pump,
          'ports': measure_ports, 'insight': measure_insight}
REPEATING_S = 300  # do not repeat disturbed columns after this time


def parse_arguments():
    parser = argparse.ArgumentParser(prog='measure', description=__doc__)
    parser.add_argument('--build', type=Path, default='build/release', help='build directory')
    parser.add_argument('--torch-env', default='', help='virtual environment with PyTorch')
    parser.add_argument('--ft-env', default='', help='virtual environment with ft_launcher')
    parser.add_argument('--frameworks-env', default='',
                        help='virtual environment with transformers and Lightning')
    parser.add_argument('--out', help='directory for results.md, results.csv and the plots')
    parser.add_argument('--quick', action='store_true', help='fewer rounds, shorter spans')
    parser.add_argument('blocks', nargs='+', choices=[*BLOCKS, 'all'], metavar='BLOCK')
    return parser.parse_args()


def processor():
    for line in Path('/proc/cpuinfo').read_text().splitlines():
        if line.startswith('model name'):
            return line.partition(': ')[2]
    return 'unknown processor'


def conditions(quick, effort):
    system = os.uname()
    now = time.strftime('%Y-%m-%d %H:%M:%S UTC', time.gmtime())
    return [f'{os.cpu_count()} × {processor()}, {system.sysname} {system.release}',
            f'{now}{" (quick)" if quick else ""}, {effort.rounds} rounds in turn, at most '
            f'{effort.repeats} repetitions of disturbed columns']


def main():
    arguments = parse_arguments()
    # The storm needs one file descriptor per client. Child programs inherit the limit.
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    effort = replace(QUICK if arguments.quick else Effort(),
                     repeat_until=time.monotonic() + REPEATING_S)
    peers = Peers(arguments.build.resolve(), arguments.torch_env, arguments.ft_env,
                  arguments.frameworks_env)
    report = Report(conditions(arguments.quick, effort), [])
    for name, measure in BLOCKS.items():
        if name in arguments.blocks or 'all' in arguments.blocks:
            say(name)
            for table in measure(peers, effort):
                print(markdown_of(table), flush=True)
                report.tables.append(table)
    if arguments.out:
        save(report, arguments.out)


if __name__ == '__main__':
    main()
