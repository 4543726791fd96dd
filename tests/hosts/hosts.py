# SPDX-License-Identifier: Apache-2.0
"""Hosts on this machine: each has its own network, name and /etc (network, UTS and mount
namespaces). All are on one switch, a bridge in a separate namespace. They vanish with the processes
that hold them. Needs root."""

import contextlib
import os
import shutil
import subprocess
import unittest

from harness import eventually, free_port, read
from nodes import Cluster, NodesCase

NETWORK = "10.77.0."
DNS = NETWORK + "254"  # of the switch; a trap may listen there
TRAP = """
import socket, sys
trap = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
trap.bind((sys.argv[1], 53))
with open(sys.argv[2], "ab", buffering=0) as out:
    out.write(b"ready\\n")
    while True:
        out.write(trap.recv(2000)[12:60].hex().encode() + b"\\n")
"""


def missing():
    """Why these tests cannot run here; empty if they can."""
    if os.getuid() != 0:
        return "needs root for namespaces"
    for program in ("ip", "nft", "unshare", "nsenter", "mount"):
        if not shutil.which(program):
            return f"needs the program {program}"
    probe = subprocess.run(["unshare", "-n", "-u", "-m", "ip", "link", "add", "name", "probe",
                            "type", "bridge"], capture_output=True, check=False)
    return "" if probe.returncode == 0 else "namespaces with a bridge are not allowed here"


class Space:
    """Namespaces, held by a process that waits for the end of its input."""

    def __init__(self, *flags):
        self.flags = flags
        self.holder = subprocess.Popen(["unshare", *flags, "sh", "-c", "echo ready; exec cat"],
                                       stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self.holder.stdout.readline() == b"ready\n"
        self.prefix = ["nsenter", "-t", str(self.holder.pid), *(flag for flag in flags)]

    def run(self, *command, given=None):
        done = subprocess.run([*self.prefix, *command], input=given, text=True,
                              capture_output=True, check=False)
        assert done.returncode == 0, f"{command}: {done.stderr}"
        return done.stdout

    def ip(self, *lines):
        self.run("ip", "-batch", "-", given="\n".join(lines) + "\n")

    def close(self):
        with contextlib.suppress(BrokenPipeError):
            self.holder.stdin.close()
        self.holder.stdout.close()
        self.holder.wait()


class Host(Space):
    def __init__(self, net, number, name):
        super().__init__("-n", "-u", "-m")
        self.net, self.number, self.name = net, number, name
        self.address = NETWORK + str(number)
        self.port = f"v{number}"
        self.run("hostname", name)
        net.switch.ip(f"link add {self.port} type veth peer name eth0 netns {self.holder.pid}",
                      f"link set {self.port} master br0 up")
        self.ip("link set lo up", f"addr add {self.address}/24 dev eth0", "link set eth0 up")

    def etc(self, **files):
        """Replaces /etc/NAME with the host's own files."""
        for name, text in files.items():
            path = self.net.folder / f"{self.name}.{name}"
            path.write_text(text)
            target = {"resolv": "resolv.conf"}.get(name, name)
            self.run("mount", "--bind", path, os.path.realpath(f"/etc/{target}"))

    def own_etc(self, name, text):
        """Adds /etc/NAME, which other hosts do not have."""
        script = f"""set -e; own=$(mktemp -d); mount -t tmpfs tmpfs $own; cp -a /etc/. $own
            mkdir -p $(dirname $own/{name}); cat > $own/{name}; mount --move $own /etc"""
        self.run("sh", "-c", script, given=text)

    # -- cuts ---------------------------------------------------------------------------------

    def unplug(self):
        self.net.switch.ip(f"link set {self.port} down")

    def plug(self):
        self.net.switch.ip(f"link set {self.port} up")

    def firewall(self, verdict):
        """Applies a verdict to incoming packets, and drops outgoing packets too if incoming ones
        are dropped."""
        rules = ["table inet cut {", "chain in { type filter hook input priority 0;",
                 f"iifname eth0 {verdict}; }}"]
        if verdict == "drop":
            rules += ["chain out { type filter hook output priority 0; oifname eth0 drop; }"]
        self.run("nft", "-f", "-", given="\n".join([*rules, "}", ""]))

    def open(self):
        self.run("nft", "delete", "table", "inet", "cut")


class Net:
    """A switch, and hosts with these names and the addresses .1, .2, ..."""

    def __init__(self, folder, names):
        self.folder = folder
        self.spaces = []
        self.switch = self.add(Space("-n"))
        # A fixed address. Otherwise the bridge takes the lowest address of its ports, which changes
        # with each new host, and clients that queried it before send into the void for half a
        # minute.
        self.switch.ip("link set lo up",
                       "link add br0 address 02:00:00:00:00:fe type bridge forward_delay 0",
                       f"addr add {DNS}/24 dev br0", "link set br0 up")
        self.hosts = [self.add(Host(self, number, name)) for number, name in enumerate(names, 1)]
        for host in self.hosts:
            host.etc(hosts=self.names(), resolv=f"nameserver {DNS}\n")

    def add(self, space):
        self.spaces.append(space)
        return space

    def names(self):
        return "127.0.0.1 localhost\n" + "".join(
            f"{host.address} {host.name} {host.name}.cluster\n" for host in self.hosts)

    def trap_dns(self):
        """Counts queries to the only name server; returns the file with one line per query."""
        path = self.folder / "dns"
        trap = subprocess.Popen([*self.switch.prefix, "python3", "-c", TRAP, DNS, str(path)])
        self.spaces.append(Killed(trap))
        eventually(lambda: read(path), "the trap listens")
        return path

    def close(self):
        for space in reversed(self.spaces):
            space.close()


class Killed:
    def __init__(self, process):
        self.process = process

    def close(self):
        self.process.kill()
        self.process.wait()


@unittest.skipIf(missing(), missing())
class HostsCase(NodesCase):
    names = ("node1", "node2", "node3")

    def setUp(self):
        super().setUp()
        self.net = None

    def hosts(self, *names):
        self.net = Net(self.folder, names or self.names)
        self.addCleanup(self.net.close)
        # After the nodes have exited, because cleanups run last in, first out.
        self._cleanups.insert(0, self._cleanups.pop())
        return self.net.hosts

    def cluster(self, nnodes, **how):
        how.setdefault("endpoint", f"{NETWORK}1:{free_port()}")
        return HostCluster(self, nnodes, addresses=None, **how)


class HostCluster(Cluster):
    """A cluster whose node n runs on host n."""

    def start(self, number, label=None, popen=None, **how):
        host = self.case.net.hosts[number - 1]
        popen = {"prefix": host.prefix, **(popen or {})}
        return super().start(number, label=label or host.name, popen=popen, **how)

    def is_hosted(self):
        port = int(self.endpoint.split(",")[0].rpartition(":")[2])
        return f":{port:04X} 00000000:0000 0A" in self.case.net.hosts[0].run(
            "cat", "/proc/net/tcp", "/proc/net/tcp6").replace("0" * 32, "0" * 8)
