# SPDX-License-Identifier: Apache-2.0
"""The goals. Each compares a cell's median, or its ratio to another row's, with a limit. They are
printed with the figures; goals never affect the exit code."""
from dataclasses import dataclass
from typing import Optional

from . import names as n
from .tables import readable


@dataclass
class Goal:
    text: str
    table: str
    row: str
    column: str
    limit: float
    over: str = ''  # the row to compare with; empty if the goal is about the cell itself
    at_most: bool = True  # True: the limit is an upper bound; False: a lower bound
    measured: Optional[float] = None  # None if a row was not measured or a program is not installed

    def met(self):
        if self.measured is None:
            return False
        return self.measured <= self.limit if self.at_most else self.measured >= self.limit

    def judged(self, report):
        own = report.cell(self.table, self.row, self.column).median()
        self.measured = own
        if own is not None and self.over:
            other = report.cell(self.table, self.over, self.column).median()
            self.measured = own / other if other else None
        return self


def launch_goals():
    for count, over, what, limit in (('2', n.HYDRA, "mpiexec.hydra's", 0.5),
                                     ('2', n.FLOOR, "the bare program's", 3),
                                     ('64', n.FLOOR, "the bare program's", 1.5),
                                     ('64', n.HYDRA, "mpiexec.hydra's", 1)):
        yield Goal(f'{count} × true: time over {what}', 'launch', n.MUSTER, count, limit, over)
    yield Goal('--help, ms', 'help', n.MUSTER, '--help', 3)
    yield Goal('memory of guard and agent, MB', 'memory', n.MUSTER, 'peak', 8)
    yield Goal('crash → 8 workers running again, ms', 'restart', n.MUSTER, '8 workers', 10)


def warm_goals():
    for what, table in (('exit', 'warm-restart'), ('killed', 'warm-killed')):
        for workers, limit in (('2', 30), ('8', 100), ('16', 200)):
            yield Goal(f'--warm, {what} → {workers} workers in user code, ms', table,
                       n.MUSTER_WARM, f'{workers} workers', limit)
    for workers, limit in (('2', 150), ('8', 400), ('16', 700)):
        yield Goal(f'--warm, killed → {workers} workers have taken a step of DDP, ms',
                   'warm-ddp-killed', n.MUSTER_WARM, f'{workers} workers', limit)


def node_goals():
    for agents in ('2', '8', '32'):
        what = f'{agents} agents × true: time over '
        yield Goal(what + "torchrun's", 'nodes', n.MUSTER, agents, 1 / 300, n.TORCHRUN)
        yield Goal(what + "mpiexec.hydra's", 'nodes', n.MUSTER, agents, 1, n.HYDRA)
    for hosts in ('2', '32', '256'):
        yield Goal(f"--hosts, {hosts} × true: time over mpiexec.hydra's", 'hosts', n.MUSTER, hosts,
                   1, n.HYDRA)
    for change, limit in (('worker dies, 4 agents', 20), ('agent dies, 4 agents', 100),
                          ("host's agent dies, 4 agents", 250), ('agent joins, 1 → 2', 50)):
        yield Goal(f'{change} → all running again, ms', 'nodes-recovery', n.MUSTER, change, limit)
    for row, column, limit in (('1000 nodes', 'all started', 1000),
                               ('1000 nodes', 'regrouped after one loss', 500),
                               ('10000 nodes', 'all started', 10000)):
        yield Goal(f'{row}, {column}, ms', 'crowd', row, column, limit)
    yield Goal('record of a round, 64 nodes, ms', 'nodes-record', n.MUSTER, '64 nodes', 1)
    yield Goal('1000 idle nodes, % of a core', 'crowd-idle', '1000 nodes', '% of a core', 1)


def store_goals():
    for operation in ('get', 'set', 'add'):
        for clients in ('1', '8', '32', '128'):
            plural = '' if clients == '1' else 's'
            for over, what, limit in ((n.REDIS, "redis-server's", 1),
                                      (n.TORCH_STORE, "PyTorch's", 1),
                                      (n.ECHO, "the bare echo's", 0.9)):
                yield Goal(f'store, {operation} by {clients} client{plural}: rate over {what}',
                           f'store-{operation}', n.STORE, clients, limit, over, False)


def collective_goals():
    ratios = [(n.GLOO_OVER_PRIVATE, '25 MiB', 8), (n.GLOO_OVER_LIBRARY, '25 MiB', 20)]
    ratios += [(n.MPI_OVER_PRIVATE, size, 2.5)
               for size in ('1 MiB', '4 MiB', '16 MiB', '25 MiB', '100 MiB')]
    ratios += [(n.MEMCPY_OVER_PRIVATE, '25 MiB', 0.8), (n.OPEN_MPI_OVER_PRIVATE, '4 B', 1),
               (n.OPEN_MPI_OVER_PRIVATE, '1 KiB', 1), (n.GLOO_OVER_TCP, '25 MiB', 2.5),
               (n.GLOO_OVER_TCP, '1 KiB', 30)]
    for row, column, limit in ratios:
        yield Goal(f'all-reduce of {column}: {row}', 'collective-ratios', row, column, limit,
                   at_most=False)
    yield Goal('all-reduce of 4 B, µs', 'collective', n.PRIVATE, '4 B', 0.6)
    yield Goal('4 ranks, all-reduce of 1 KiB, µs', 'collective-4', n.PRIVATE, '1 KiB', 60)
    for size, limit in (('1 MiB', 8), ('16 MiB', 6)):
        yield Goal(f'all-reduce of {size}, GB/s', 'collective-bandwidth', n.PRIVATE, size, limit,
                   at_most=False)
    for memory in (n.PRIVATE, n.LIBRARY):
        yield Goal(f'bf16 over f32 of the same count: {memory}', 'collective-types-ratios', memory,
                   'bf16', 0.6)
    yield Goal('a rank with 2 GiB dies → all others have an error, µs', 'collective-death',
               n.PRIVATE,
               'victim of 2 GiB', 2000)
    yield Goal('GradientSync: not hidden by a backward pass on a device, %', 'collective-overlap',
               n.GRADIENT_SYNC, 'backward on a device', 15)
    yield Goal('GPU: our call over the bare NCCL call, µs', 'collective-gpu', n.NCCL, 'added', 2)


def ddp_goals():
    for ranks, limits in (('', (0.40, 0.70, 0.65)), ('-4', (0.5, 0.7, 0.7))):
        for model, limit in zip(('MLP, 0.27 M', 'GPT, 5 M', 'CNN, 11 M'), limits):
            yield Goal(f"DDP, {ranks[1:] or 2} ranks, {model}: step over gloo's",
                       f'ddp{ranks}-ratios', n.TORCH_COMPILED, model, limit)
    for column, limit in (('all_reduce', 6), ('all_reduce, async + wait', 10)):
        yield Goal(f'torch.distributed, 1 KiB, {column}: µs', 'ddp-calls', n.TORCH_COMPILED,
                   column, limit)


def other_goals():
    idle = 'store, get with 4,000 idle clients: rate over '
    yield Goal(idle + "the bare echo's", 'store-idle', n.STORE, '32', 0.9, n.ECHO, False)
    yield Goal(idle + "PyTorch's", 'store-idle', n.STORE, '32', 1, n.TORCH_STORE, False)
    yield Goal('store, get 8 × 64 deep, requests per second', 'store-deep', n.STORE, 'get 8 × 64',
               4e6, at_most=False)
    yield Goal("store, streamed SETs of 8 clients: rate over PyTorch's", 'store-deep',
               n.STORE, 'SET stream × 8', 1, n.TORCH_STORE, False)
    yield Goal('10,000 clients connect, set, get: ms', 'storm', n.STORE, '10,000 clients', 3000)
    yield Goal('server memory of an idle connection, bytes', 'storm-memory', n.STORE, 'bytes each',
               4096)
    yield Goal('ports that two jobs had at the same time', 'ports', n.HELD, 'collisions', 0)
    yield Goal("log pump: rate over tee's", 'pump', n.MUSTER, 'file and console', 0.6, n.TEE,
               False)


def insight_goals():
    for row in (n.TELLS, n.WATCHED):
        yield Goal(f"step of 10 ms, {row}: mean over a bare one's", 'insight-ratios', row,
                   'step, mean', 1.001)
    yield Goal('hang watch: agent, % of a core', 'insight-steps', n.WATCHED, 'agent, % of a core',
               0.1)
    for column, limit in (('answered/s', 999), ('memory grew, KiB', 256), ('rounds lost', 0),
                          ('longest, ms', 167)):
        yield Goal(f'1,000 scrapes/s: {column}', 'insight-scrapes', n.MUSTER, column, limit,
                   at_most=column != 'answered/s')
    for column in ('a worker, its own node', 'a worker, another node', 'a node, another node'):
        yield Goal(f'death → subscriber, {column}: ms', 'insight-feed', n.MUSTER, column, 5)
    yield Goal('death in a server → its tree has exited, ms', 'insight-trees', n.MUSTER, 'all gone',
               100)


def recovery_goals():
    limits = {n.REPLACED_WARM: (120, 250), n.REPLACED_MUSTER: (120, 250),
              n.REPLACED_SPARE: (60, 120), n.REPLACED_SPARE_MUSTER: (60, 120)}
    for row, (median, high) in limits.items():
        for column, most in (('each kill', median), ('99th percentile', high)):
            yield Goal(f'SIGKILL → all ranks have completed a step, {row}, {column}: ms',
                       'recovery', row, column, most)
        yield Goal(f'goodput with a kill every 2 s, {row}: %', 'recovery-goodput', row, 'whole run',
                   92, at_most=False)
    yield Goal('weights after kills, backend "muster": difference', 'recovery-weights',
               n.REPLACED_MUSTER, 'largest difference', 0)
    for column in ('1 MiB', '16 MiB', '256 MiB'):
        yield Goal(f"commit of {column}: time over memcpy's", 'recovery-commit', n.COMMIT_TORCH,
                   column, 1.1, n.COPY)


def judge(report):
    """All goals whose tables are in the report. The report may contain only some blocks."""
    there = {table.id for table in report.tables}
    goals = (*launch_goals(), *warm_goals(), *node_goals(), *store_goals(), *collective_goals(),
             *ddp_goals(), *insight_goals(), *recovery_goals(), *other_goals())
    return [goal.judged(report) for goal in goals if goal.table in there]


def markdown_of(goals):
    lines = ['| goal | measured | wanted | met |', '|---|---|---|---|']
    for goal in goals:
        known = goal.measured is not None
        answer = 'not measured' if not known else 'yes' if goal.met() else '**no**'
        lines.append(f'| {goal.text} | {readable(goal.measured) if known else "–"} | '
                     f'{"≤" if goal.at_most else "≥"} {readable(goal.limit)} | {answer} |')
    return '\n'.join(lines) + '\n'
