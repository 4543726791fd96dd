# SPDX-License-Identifier: Apache-2.0
"""Blocks nodes, crowds and scale: multi-node jobs. All agents run on this host. Followers are real
connections from one process; for scale, muster-sim simulates the nodes."""
import json
import os
import signal
import socket
import subprocess
import tempfile
import time
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

from . import names as n
from .child import Child, Failed, Scratch, output_of, tool, wait_until
from .notes import members_of
from .series import Contestant, run_column, run_columns, say
from .tables import Table

START_S = 60
RECOVERY_S = 20
NAP_S = 0.3  # hydra dies from SIGPIPE on shorter jobs; its times exclude this sleep


def free_port():
    with socket.socket() as probe:
        probe.bind(('127.0.0.1', 0))
        return probe.getsockname()[1]


def agent_command(launcher, nodes, port, leads, conf, *worker):
    """The command line of an agent. `leads` fixes the leader, independent of startup order."""
    return [launcher, f'--nnodes={nodes}', '--nproc-per-node=1', '--max-restarts=100',
            '--rdzv-backend=c10d', '--rdzv-id=bench', f'--rdzv-endpoint=127.0.0.1:{port}',
            f'--rdzv-conf=is_host={int(leads)}{conf}', '--no-python', *worker]


def time_of(peers, *command):
    """Milliseconds from the start of the programs to the last exit."""
    return tool(peers, 'time', '--timeout', 120, '--', *command, timeout=150)['ms']


def form(peers, launcher, agents):
    port, command = free_port(), []
    for at in range(agents):
        command += [*([':::'] if at else []),
                  *agent_command(launcher, agents, port, at == 0, '', '/bin/true')]
    return time_of(peers, *command)


def form_hydra(peers, hosts, *launcher):
    """Runs `sleep` on each host and subtracts its duration from the times."""
    times = time_of(peers, peers.hydra, '-launcher', *launcher, '-hosts', ','.join(hosts), '-ppn',
                    '1', '-n', len(hosts), '/bin/sleep', NAP_S)
    return [ms - NAP_S * 1000 for ms in times]


def form_table(peers, effort):
    table = Table('nodes', 'N agents on one host, 1 × true each, start to last exit', 'ms',
                  ['2', '8', '32'],
                  f'mpiexec.hydra with N proxies runs `sleep {NAP_S}` instead, which is '
                  'subtracted, because it dies from SIGPIPE on shorter jobs.')

    def contestants_of(column):
        agents = int(column)
        hosts = [f'127.0.1.{at + 1}' for at in range(agents)]
        return [Contestant(n.MUSTER, bool(peers.muster), lambda: form(peers, peers.muster, agents)),
                Contestant(n.HYDRA, bool(peers.hydra), lambda: form_hydra(peers, hosts, 'fork')),
                Contestant(n.TORCHRUN, bool(peers.torchrun),
                           lambda: form(peers, peers.torchrun, agents), slow=True)]

    run_columns(table, contestants_of, effort)
    return table


@dataclass
class Recovery:
    title: str
    agents: int
    after: int  # number of workers after the recovery


RECOVERIES = (Recovery('worker dies, 4 agents', 4, 4), Recovery('agent dies, 4 agents', 4, 3),
              Recovery("host's agent dies, 4 agents", 4, 3), Recovery('agent joins, 1 → 2', 1, 2))


def wait_for_members(notes, count, timeout):
    def enough():
        members = members_of(notes.read_text()) if notes.exists() else []
        return members if len(members) >= count else None
    return wait_until(enough, timeout, f'{count} workers start')


def join(peers, command):
    """Starts one more agent. Also returns the monotonic time just before that, in nanoseconds."""
    timed = Child([peers.tools, 'time', '--', *command], peers.environ, stdout=subprocess.PIPE)
    return timed, json.loads(timed.stdout.readline())["begin_ns"]


def recover(peers, launcher, recovery):
    """Milliseconds from the change to the start of the last worker in the new round."""
    joins = recovery.after > recovery.agents
    with Scratch() as folder, ExitStack() as stack:
        notes = Path(folder, 'notes')
        worker = (peers.floor, 'member', notes)
        nodes = f'1:{max(recovery.agents, recovery.after)}'
        port, conf = free_port(), ',last_call_timeout=1' if joins else ''
        agents = [stack.enter_context(Child(
            agent_command(launcher, nodes, port, at == 0, conf, *worker), peers.environ))
            for at in range(recovery.agents)]
        before = wait_for_members(notes, recovery.agents, START_S)
        begin = time.monotonic_ns()
        if joins:
            more, begin = join(peers, agent_command(launcher, nodes, port, False, conf, *worker))
            stack.enter_context(more)
        elif recovery.title.startswith('worker'):
            os.kill(before[-1].number, signal.SIGKILL)
        else:
            agents[0 if recovery.title.startswith('host') else -1].kill_family()
        count = recovery.agents + recovery.after
        last = wait_for_members(notes, count, RECOVERY_S)[count - 1]
        return [(last.nanoseconds - begin) / 1e6]


def recovery_table(peers, effort):
    table = Table('nodes-recovery',
                  'From a change until all workers run again (one worker per agent)', 'ms',
                  [recovery.title for recovery in RECOVERIES],
                  'An agent dies by SIGKILL together with its worker, as when a node dies, and is '
                  f'not replaced. "failed" means not within {RECOVERY_S} s.')
    more = replace(effort, rounds=20)  # muster needs milliseconds; slow launchers run fewer rounds
    for column, recovery in enumerate(RECOVERIES):
        run_column(table, column, [
            Contestant(name, bool(program),
                       lambda program=program, recovery=recovery: recover(peers, program, recovery),
                       slow)
            for name, program, slow in ((n.MUSTER, peers.muster, False),
                                        (n.TORCHRUN, peers.torchrun, True))], more)
    return table


def record_table(peers, effort):
    """Measures the recording of a round on the disk of the current directory."""
    table = Table('nodes-record', 'Recording a round on a node before accepting it', 'ms',
                  ['2 nodes', '64 nodes', '1024 nodes'],
                  'Encoding, write, fsync and rename, on the disk that holds this checkout.')
    say(f'  {table.title}')
    cells = table.row(n.MUSTER)
    for column, cell in zip(table.columns, cells):
        with tempfile.TemporaryDirectory(prefix='.muster-record-', dir='.') as folder:
            # muster also writes a file beside this folder.
            rounds = os.path.join(os.path.abspath(folder), 'rounds')
            found = tool(peers, 'record', '--folder', rounds,
                         '--nodes', column.split()[0], '--requests', 20 * effort.rounds)
            cell.samples += found['ms']
    return table


def measure_nodes(peers, effort):
    """Measures several agents: start and exit, recovery after a loss or a join, the cost of
    records."""
    return [form_table(peers, effort), recovery_table(peers, effort), record_table(peers, effort)]


TIMES = ('joined_ms', 'started_ms', 'regrouped_ms')
IDLE = ('idle_percent', 'bytes_per_node_second', 'messages_per_node')


def measure_crowds(peers, effort):
    """Measures 1,000 and 10,000 followers of one coordinator: join, start, regroup; cost when
    idle."""
    times = Table('crowd', 'Many followers of one coordinator (real connections)', 'ms',
                  ['all joined', 'all started', 'regrouped after one loss'])
    idle = Table('crowd-idle', 'Many followers of one coordinator, idle', 'see columns',
                 ['% of a core', 'bytes/s each', 'messages each to form'])
    say(f'  {times.title}')
    for nodes in (1000, effort.storm):
        cells = times.row(f'{nodes} nodes') + idle.row(f'{nodes} nodes')
        for _ in range(1 if nodes > 1000 else effort.slow_rounds):
            try:
                figures = tool(peers, 'crowd', '--nodes', nodes)
                for cell, name in zip(cells, TIMES + IDLE):
                    cell.samples.append(figures[name])
            except Failed as error:
                say(f'    {nodes} nodes: {error}')
                for cell in cells:
                    cell.missing = 'failed'
    return [times, idle]


def simulate(peers, nodes):
    """The key=number figures printed by the simulator."""
    facts = output_of([peers.simulator, '--nodes', nodes, '--scale'], peers.environ).split()
    return {key: float(number) for key, equals, number in (word.partition('=') for word in facts)
            if equals}


def measure_scale(peers, effort):
    """Measures 64 … 16,384 simulated nodes: messages and CPU time per node, and the
    simulated time."""
    columns = ['64', '256', '1024', '4096', '16384']
    messages = Table('scale-messages', 'N simulated nodes: messages per node', 'messages',
                     columns)
    work = Table('scale-work', 'N simulated nodes: CPU time per node', 'us', columns,
                 'All nodes and the network in one process; the coordinator is one of them.')
    span = Table('scale-time', 'N simulated nodes: simulated time', 'ms', columns,
                 'Without the CPU time. Includes up to 0.06 ms for each message; for mend, 0.1 to '
                 '20 ms until each rank works again.')
    say(f'  {messages.title}')
    for column, nodes in enumerate(columns):
        for _ in range(effort.slow_rounds):
            try:
                if not peers.simulator:
                    raise Failed('not installed')
                figures = simulate(peers, nodes)
            except Failed as error:
                figures, why = {}, 'failed' if peers.simulator else 'not installed'
                say(f'    {nodes} nodes: {error}')
            for what in ('form', 'regroup', 'mend'):
                for table, key, scale in ((span, f'{what}_ms', 1),
                                          (messages, f'{what}_messages_per_node', 1),
                                          (work, f'{what}_cpu_ms', 1000 / int(nodes))):
                    cell = table.row(what)[column]
                    if figures:
                        cell.samples.append(figures[key] * scale)
                    else:
                        cell.missing = why
    return [span, messages, work]
