# SPDX-License-Identifier: Apache-2.0
"""Block insight: the cost of monitoring a job (scrapes, progress calls, hang detection), and how
soon other processes learn of a death."""
import os
import random
import select
import signal
import subprocess
import sys
import time
import urllib.request
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from . import names as n
from .child import Child, Failed, Scratch, family_of, memory_kib, output_of, tool, wait_until
from .nodes import START_S, agent_command, free_port, wait_for_members
from .notes import notes_of
from .series import Contestant, run_table
from .tables import Table

RATE = 1000  # scrapes per second
WARM_SCRAPES = 500
STEP_MS = 10
TREE = Path(__file__).parents[3] / 'tests/integration/server_tree.py'
TREE_SIZE = 5  # processes of a server tree


def agent_of(launcher):
    """The pid of the launcher's agent process."""
    def found():
        return next((pid for pid in family_of(launcher.pid)
                     if Path(f'/proc/{pid}/comm').read_text().strip() == 'job-agent'), 0)
    return wait_until(found, START_S, 'the agent')


def processor_ns(pid):
    """The CPU time of a single-threaded process, as counted by the scheduler."""
    return int(Path(f'/proc/{pid}/schedstat').read_text().split()[0])


# -- scrapes --------------------------------------------------------------------------------------

@contextmanager
def two_nodes(peers, conf, *worker, per_node=1, options=((), ())):
    """Runs two agents, the first of which leads. Yields the agents and the path of their notes."""
    with Scratch() as folder, ExitStack() as stack:
        notes, port = Path(folder, 'notes'), free_port()
        agents = []
        for at in (0, 1):
            command = agent_command(peers.muster, '1:2', port, at == 0, conf, *worker, notes)
            command[1:1] = [f'--local-addr=127.0.0.{at + 1}', *options[at]]
            command[command.index('--nproc-per-node=1')] = f'--nproc-per-node={per_node}'
            agents.append(stack.enter_context(Child(command, peers.environ)))
        wait_for_members(notes, 2 * per_node, START_S)
        yield agents, notes


def metrics_of(port):
    with urllib.request.urlopen(f'http://127.0.0.1:{port}/metrics', timeout=10) as answer:
        lines = answer.read().decode().splitlines()
    return dict(line.rsplit(' ', 1) for line in lines if not line.startswith('#'))


def scrape(peers, effort):
    """Scrapes the leader of a two-node job with a lease of 1 s, at fixed times."""
    port = free_port()
    with two_nodes(peers, ',lease=1', peers.floor, 'member',
                   options=([f'--http={port}'], [])) as (agents, _):
        agent = agent_of(agents[0])
        tool(peers, 'scrape', '--port', port, '--requests', WARM_SCRAPES, '--rate', RATE)
        memory, used = memory_kib(agent, 'VmRSS'), processor_ns(agent)
        figures = tool(peers, 'scrape', '--port', port, '--rate', RATE, '--requests',
                       int(RATE * effort.watched))
        used = processor_ns(agent) - used
        metrics = metrics_of(port)
        lost = sum(int(metrics[name]) for name in
                   ('muster_regroups_total', 'muster_fences_total', 'muster_restarts_total'))
        return {'answered/s': [figures['answered'] / figures['seconds']],
                'median, ms': [figures['median_ms']], '99 %, ms': [figures['p99_ms']],
                'longest, ms': [figures['longest_ms']],
                'memory grew, KiB': [memory_kib(agent, 'VmRSS') - memory],
                'agent, % of a core': [used / figures['seconds'] / 1e7], 'rounds lost': [lost]}


def scrapes_table(peers, effort):
    table = Table('insight-scrapes', f'/metrics of the leader of two nodes, {RATE:,} times per '
                  f'second for {effort.watched:g} s, sent on schedule', 'see columns',
                  ['answered/s', 'median, ms', '99 %, ms', 'longest, ms', 'memory grew, KiB',
                   'agent, % of a core', 'rounds lost'],
                  'From the due time of a scrape to its response, so the agent was never blocked '
                  'for longer than the longest. The lease is 1 s, so a heartbeat is due every '
                  '167 ms; after 450 ms without one the other node would have killed its workers.')
    run_table(table, [Contestant(n.MUSTER, bool(peers.muster), lambda: [scrape(peers, effort)])],
              effort)
    return table


# -- steps ----------------------------------------------------------------------------------------

WATCHES = ((n.UNWATCHED, ['--hang-timeout=off'], 'quiet'),
           (n.TELLS, ['--hang-timeout=off'], 'tell'),
           (n.WATCHED, ['--hang-timeout=auto'], 'tell'))


def take_steps(peers, options, units, effort, how):
    """Runs one job with one computing worker per CPU."""
    count = max(1, int(effort.watched / 2 * 1000 / STEP_MS))
    command = [peers.muster, f'--nproc-per-node={os.cpu_count()}', *options, '--no-python',
               peers.insight, 'steps', units, count, how]
    with Child(command, peers.environ, stdout=subprocess.PIPE) as job:
        if job.stdout.readline() != 'begun\n':
            raise Failed('the job with steps did not start')
        agent = agent_of(job)
        used, begun = processor_ns(agent), time.monotonic_ns()
        mean, median = map(float, job.stdout.readline().split())
        used, span = processor_ns(agent) - used, time.monotonic_ns() - begun
        job.stop()
    return {'step, mean, us': [mean], 'step, median, us': [median],
            'agent, % of a core': [100 * used / span], 'agent, s/h': [3600 * used / span]}


def steps_table(peers, effort):
    table = Table('insight-steps', f'Steps of {STEP_MS} ms, {os.cpu_count()} computing workers on '
                  f'{os.cpu_count()} CPUs', 'see columns',
                  ['step, mean, us', 'step, median, us', 'agent, % of a core', 'agent, s/h'],
                  "Fixed work, calibrated once. The agent's CPU time, in seconds per hour, is an "
                  'upper bound for the cost of the hang watch.')
    units = [0]

    def steps(options, how):
        units[0] = units[0] or int(output_of([peers.insight, 'calibrate', STEP_MS],
                                             peers.environ))
        return [take_steps(peers, options, units[0], effort, how)]

    run_table(table, [Contestant(name, bool(peers.muster and peers.insight),
                                 lambda each=(options, how): steps(*each))
                      for name, options, how in WATCHES], effort)
    return table


def ratios_table(steps):
    """The ratio of each step time to the unwatched step time in the same round."""
    table = Table('insight-ratios', 'Step time over a job without progress calls and hang watch',
                  'ratio', ['step, mean', 'step, median'])
    bare = steps.row(n.UNWATCHED)
    for name in (n.TELLS, n.WATCHED):
        for at, cell in enumerate(table.row(name)):
            cell.samples = [own / base for own, base in
                            zip(steps.row(name)[at].samples, bare[at].samples)]
            cell.missing = steps.row(name)[at].missing
    table.foreign = steps.foreign[:2]
    return table


def progress_table(peers, effort):
    table = Table('insight-progress', 'muster.worker.progress(step)', 'ns', ['C++'])
    command = [peers.muster, '--no-python', peers.insight, 'progress', 10_000_000]
    run_table(table, [Contestant(
        n.MUSTER, bool(peers.muster and peers.insight),
        lambda: [{'C++': [float(output_of(command, peers.environ))]}])], effort)
    return table


# -- deaths ---------------------------------------------------------------------------------------

FEED = ('a worker, its own node', 'a worker, another node', 'a node, another node')


def wait_for_gone(notes, count):
    """The times at which ranks learned of a death."""
    def heard():
        gone = [note for note in notes_of(notes.read_text()) if note.event == 'gone']
        return gone if len(gone) >= count else None
    return wait_until(heard, START_S, 'all ranks learn of the death')


def hear_of_workers(peers, effort):
    """Runs ranks 0 and 1 on one node, 2 and 3 on the other, and repeatedly kills a random worker.
    Returns milliseconds from just before the kill until the slowest rank on a node has learned of
    it."""
    chance, out = random.Random(effort.deaths), {FEED[0]: [], FEED[1]: []}
    with two_nodes(peers, '', peers.insight, 'follow', per_node=2) as (_, notes):
        for turn in range(effort.deaths):
            members = wait_for_members(notes, 4 * (turn + 1), START_S)[4 * turn:]
            victim = chance.choice(members)
            begun = time.monotonic_ns()
            os.kill(victim.number, signal.SIGKILL)
            gone = wait_for_gone(notes, 3 * (turn + 1))[3 * turn:]
            for column, same in ((FEED[0], True), (FEED[1], False)):
                out[column].append(max(note.nanoseconds - begun for note in gone
                                       if (note.rank // 2 == victim.rank // 2) == same) / 1e6)
    return out


def hear_of_a_node(peers):
    with two_nodes(peers, '', peers.insight, 'follow', per_node=2) as (agents, notes):
        begun = time.monotonic_ns()
        agents[1].kill_family()
        gone = wait_for_gone(notes, 2)
        return {FEED[2]: [max(note.nanoseconds for note in gone) / 1e6 - begun / 1e6]}


def feed_table(peers, effort):
    table = Table('insight-feed', 'From SIGKILL until a subscriber (C++) learns of the death',
                  'ms', list(FEED), 'Columns name the victim and the node of the subscribers; the '
                  'slowest subscriber counts. A node dies by killing its launcher and all '
                  'descendants.')

    def hear():
        runs = [hear_of_workers(peers, effort)]
        runs += [hear_of_a_node(peers) for _ in range(max(1, effort.deaths // 4))]
        return runs

    run_table(table, [Contestant(n.MUSTER, bool(peers.muster and peers.insight), hear)], effort)
    return table


# -- server trees ---------------------------------------------------------------------------------

@dataclass
class Tree:
    """The processes of one attempt, referenced by pidfds as a protection against pid reuse."""
    pids: list

    def kill_one(self, chance):
        """Kills a random process. Returns milliseconds until all processes have exited."""
        held = [os.pidfd_open(pid) for pid in self.pids]
        try:
            begun = time.monotonic_ns()
            signal.pidfd_send_signal(chance.choice(held), signal.SIGKILL)
            for each in held:
                if not select.select([each], [], [], START_S)[0]:
                    raise Failed('a process of a tree is still running')
            return (time.monotonic_ns() - begun) / 1e6
        finally:
            for each in held:
                os.close(each)


def kill_trees(peers, effort):
    chance, times = random.Random(effort.deaths), []
    with Scratch() as folder:
        command = [peers.muster, '--on-child-death=fail', '--shutdown-timeout=0',
                   f'--max-restarts={effort.deaths}', '--no-python', sys.executable, TREE, folder,
                   'fork']
        with Child(command, peers.environ) as job:
            agent = agent_of(job)
            for turn in range(effort.deaths):
                wait_until(lambda turn=turn: len([file for file in Path(folder).glob(f'{turn}-0-*')
                                                  if not file.suffix]) == TREE_SIZE,
                           START_S, 'the tree is complete')
                times.append(Tree(family_of(agent)[1:]).kill_one(chance))
    return {'all gone': times}


def trees_table(peers, effort):
    table = Table('insight-trees', 'From SIGKILL of a random process of a server until its whole '
                  'process tree has exited (--on-child-death=fail)', 'ms', ['all gone'],
                  f'{TREE_SIZE} Python processes, one of them a daemon, one in a separate session. '
                  'None reacts to SIGTERM or to the death of another one.')
    run_table(table, [Contestant(n.MUSTER, bool(peers.muster),
                                 lambda: [kill_trees(peers, effort)])], effort)
    return table


def measure_insight(peers, effort):
    """Measures the cost of monitoring, and the time until a death is detected."""
    steps = steps_table(peers, effort)
    return [scrapes_table(peers, effort), steps, ratios_table(steps),
            progress_table(peers, effort), feed_table(peers, effort), trees_table(peers, effort)]
