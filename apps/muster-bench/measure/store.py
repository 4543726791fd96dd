# SPDX-License-Identifier: Apache-2.0
"""Block store: compares servers under one load generator (muster-bench load, stream, storm,
hold)."""
import os
import shutil
import socket
import subprocess
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Optional

from . import names as n
from .child import Child, Failed, Scratch, memory_kib, tool, wait_until
from .nodes import free_port
from .series import Contestant, run_column, run_columns, say
from .tables import Table

SERVER_CPU, CLIENT_CPU = 0, 1
IDLE = 4_000
DEEP = ('--clients', 8, '--depth', 64)
STREAMED = 1_000_000  # SETs per sample

TORCH_SERVER = '''\
import signal, sys
from torch.distributed import TCPStore
store = TCPStore('127.0.0.1', int(sys.argv[1]), is_master=True, wait_for_workers=False)
signal.pause()
'''


@dataclass
class Server:
    name: str
    protocol: str
    program: str
    command: list
    port: int
    child: Optional[Child] = None  # None if not installed or not started


def torch_command(peers, folder, port):
    """PyTorch's server queries the resolver for every client. To measure the server alone, mounts
    a private nsswitch.conf that uses only files, if that is permitted."""
    plain = [peers.torch_python, '-c', TORCH_SERVER, port]
    unshare = shutil.which('unshare')
    if not unshare or os.geteuid() != 0:
        return plain
    nsswitch = Path(folder, 'nsswitch.conf')
    nsswitch.write_text('passwd: files\ngroup: files\nhosts: files\n')
    return [unshare, '--mount', '/bin/sh', '-c',
            'mount --bind "$0" /etc/nsswitch.conf; exec "$@"', nsswitch, *plain]


def servers_of(peers, folder):
    ports = [free_port() for _ in range(4)]
    redis = [peers.redis, '--port', ports[2], '--bind', '127.0.0.1', '--save', '', '--appendonly',
             'no', '--maxclients', '15000', '--tcp-backlog', '4096', '--dir', folder, '--logfile',
             '/dev/null']
    return [Server(n.STORE, 'tcpstore', peers.muster_store,
                   [peers.muster_store, '--bind', '127.0.0.1', '--port', ports[0]], ports[0]),
            Server(n.TORCH_STORE, 'tcpstore', peers.torch_python,
                   torch_command(peers, folder, ports[1]), ports[1]),
            Server(n.REDIS, 'redis', peers.redis, redis, ports[2]),
            Server(n.ECHO, 'echo', peers.tools, [peers.tools, 'echo', '--port', ports[3]],
                   ports[3])]


def answers(port):
    try:
        socket.create_connection(('127.0.0.1', port), timeout=1).close()
        return True
    except OSError:
        return False


@contextmanager
def running_servers(peers, cpu=None):
    """Starts all four servers on free ports of 127.0.0.1, pinned to the CPU, and waits until they
    are up."""
    with Scratch() as folder, ExitStack() as stack:
        servers = servers_of(peers, folder)
        for server in (one for one in servers if one.program):
            try:
                child = stack.enter_context(Child(server.command, peers.environ, cpu))
                wait_until(lambda port=server.port: answers(port), 30, f'{server.name} answers')
                server.child = child
            except Failed as error:
                say(f'    {error}')
        yield servers


def ask(peers, server, command, *options, pinned=True):
    cpu = ('--cpu', CLIENT_CPU) if pinned else ()
    return tool(peers, command, '--port', server.port, '--protocol', server.protocol, *cpu,
                *options)


def rate(peers, server, effort, *options, pinned=True):
    return ask(peers, server, 'load', '--seconds', effort.seconds, *options, pinned=pinned)['rate']


@contextmanager
def idle_connections(peers, server, count):
    """Keeps `count` idle connections open in a separate process during the block. Each has
    completed the greeting."""
    command = [peers.tools, 'hold', '--port', server.port, '--protocol', server.protocol,
             '--clients', count, '--cpu', CLIENT_CPU]
    with Child(command, peers.environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        if not holder.stdout.readline():
            raise Failed(f'cannot open {count} connections to {server.name}')
        yield


def contest(servers, probe):
    """One contestant per server. Missing servers keep their rows."""
    def sample(server):
        if server.child is None:
            raise Failed('the server did not start')
        return [probe(server)]
    return [Contestant(server.name, bool(server.program), lambda server=server: sample(server))
            for server in servers]


def rate_table(peers, servers, operation, effort, pinned=True):
    table = Table(f'store-{operation}{"" if pinned else "-unpinned"}',
                  f'Store: {operation}{"" if pinned else ", not pinned"}',
                  'requests/s of N clients, one request in flight each', ['1', '8', '32', '128'],
                  'Server on CPU 0, clients on CPU 1.' if pinned
                  else 'Server and clients run on any CPU.')
    if operation == 'set':
        table.note += " SET has no answer in TCPStore's protocol, so SET and CHECK are sent there."
    run_columns(table, lambda clients: contest(servers, lambda server: rate(
        peers, server, effort, '--op', operation, '--clients', clients, pinned=pinned)), effort)
    return table


def idle_table(peers, servers, effort):
    table = Table('store-idle', 'Store: get, with 4,000 idle connections',
                  'requests/s of N clients, one request in flight each', ['8', '32'])

    def probe(server, clients):
        with idle_connections(peers, server, IDLE):
            return rate(peers, server, effort, '--clients', clients)

    run_columns(table, lambda clients: contest(servers, lambda server: probe(server, clients)),
                effort)
    return table


def deep_table(peers, servers, effort):
    table = Table('store-deep', 'Store: many requests in flight', 'requests/s',
                  ['get 8 × 64', 'SET stream × 1', 'SET stream × 8'],
                  'get: 8 clients, 64 requests per batch. SET stream: clients wait only for the '
                  'last answer (redis answers each).')
    run_column(table, 0, contest(servers, lambda server: rate(peers, server, effort, *DEEP)),
               effort)
    streaming = [server for server in servers if server.name != n.ECHO]  # the echo has no SET
    for column, clients in ((1, 1), (2, 8)):
        run_column(table, column, contest(
            streaming, lambda server, clients=clients: ask(
                peers, server, 'stream', '--clients', clients, '--requests', STREAMED)['rate']),
            effort)
    return table


def storm_table(peers, servers, effort):
    table = Table('storm', 'Store: many concurrent clients connect, set and get', 'ms',
                  [f'{effort.storm:,} clients'], 'At most 512 connects are in progress at a time.')
    run_column(table, 0, contest(servers, lambda server: ask(
        peers, server, 'storm', '--clients', effort.storm)['whole_ms']), effort)
    return table


def storm_memory_table(peers, servers, effort):
    """Measures newly started servers once, because a server may keep freed memory for later
    connections."""
    table = Table('storm-memory', 'Server memory of an idle connection', 'bytes', ['bytes each'],
                  f"Growth of the server's resident memory with {effort.storm} greeted connections "
                  '(user space only).')

    def probe(server):
        before = memory_kib(server.child.pid, 'VmRSS')
        with idle_connections(peers, server, effort.storm):
            return (memory_kib(server.child.pid, 'VmRSS') - before) * 1024 / effort.storm

    run_column(table, 0, contest(servers, probe), effort.once())
    return table


def measure_store(peers, effort):
    """Measures one request in flight per client, also with many idle connections; pipelined and
    streamed requests; and the storm."""
    with running_servers(peers, SERVER_CPU) as servers:
        tables = [storm_memory_table(peers, servers, effort), storm_table(peers, servers, effort)]
        tables += [rate_table(peers, servers, operation, effort)
                   for operation in ('get', 'set', 'add')]
        tables += [idle_table(peers, servers, effort), deep_table(peers, servers, effort)]
    with running_servers(peers) as servers:
        tables.append(rate_table(peers, servers, 'get', effort, pinned=False))
    return tables
