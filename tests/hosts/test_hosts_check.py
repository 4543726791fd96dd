# SPDX-License-Identifier: Apache-2.0
"""--check finds a host with a slow or long link, names it, and excludes it if required."""

import subprocess

from hosts import HostsCase, Killed
from nodes import NEVER

# Forwards frames between two TAP devices, each after a delay.
RELAY = """
import collections, fcntl, os, select, struct, sys, time
TUNSETIFF, IFF_TAP, IFF_NO_PI = 0x400454CA, 2, 0x1000
delay, names = float(sys.argv[1]), sys.argv[2:]
taps = [os.open("/dev/net/tun", os.O_RDWR) for _ in names]
for tap, name in zip(taps, names):
    fcntl.ioctl(tap, TUNSETIFF, struct.pack("16sH", name.encode(), IFF_TAP | IFF_NO_PI))
print("ready", flush=True)
waiting = collections.deque()
while True:
    left = max(0, waiting[0][0] - time.monotonic()) if waiting else None
    for tap in select.select(taps, [], [], left)[0]:
        frame = os.read(tap, 65536)
        waiting.append((time.monotonic() + delay, taps[1 - taps.index(tap)], frame))
    while waiting and waiting[0][0] <= time.monotonic():
        _, tap, frame = waiting.popleft()
        os.write(tap, frame)
"""


class Links(HostsCase):
    names = ("node1", "node2", "node3")

    def setUp(self):
        super().setUp()
        self.hosts()

    def slow_down(self, number, rate):
        """Both directions, with a token bucket of the kernel."""
        host = self.net.hosts[number - 1]
        bucket = ["root", "tbf", "rate", rate, "burst", "64kb", "latency", "400ms"]
        host.run("tc", "qdisc", "add", "dev", "eth0", *bucket)
        self.net.switch.run("tc", "qdisc", "add", "dev", host.port, *bucket)

    def delay(self, number, seconds):
        """Moves the host behind a relay."""
        switch, port = self.net.switch, self.net.hosts[number - 1].port
        relay = subprocess.Popen([*switch.prefix, "python3", "-c", RELAY, str(seconds), "near",
                                  "far"], stdout=subprocess.PIPE)
        self.net.add(Killed(relay))
        self.addCleanup(relay.stdout.close)
        self.assertEqual(relay.stdout.readline(), b"ready\n")
        switch.ip("link add br1 type bridge forward_delay 0", f"link set {port} master br1",
                  "link set far master br1 up", "link set near master br0 up", "link set br1 up")

    def lines_about(self, count):
        """The defects that node1 prints, whose job has this number of nodes. Some links may not be
        measured in time on a busy machine."""
        job = self.cluster(str(count), conf=NEVER, options=["--check"])
        nodes = job.start_all(count)
        job.round(count)
        ended = job.finish(*nodes)[0]
        return [line.partition("check: ")[2] for line in ended.err.splitlines()
                if "check: " in line and "check: not measured: " not in line]

    def test_healthy_hosts(self):
        self.assertEqual(self.lines_about(3), [])

    def test_a_host_with_a_slow_link(self):
        self.slow_down(3, "20mbit")
        lines = self.lines_about(3)
        self.assertRegex("\n".join(lines), r"(?m)^node node3: network bandwidth [\d.]+ MB/s, the "
                                           r"minimum is 12.5 MB/s$")
        # A full queue also delays small messages.
        self.assertTrue(all("node3" in line for line in lines), lines)

    def test_a_host_with_a_long_way(self):
        self.delay(3, 0.015)
        lines = self.lines_about(3)
        self.assertTrue(any(line.startswith("node node3: network latency ") and
                            line.endswith(", the maximum is 20.0 ms") for line in lines), lines)
        self.assertTrue(all(line.startswith("node node3: ") for line in lines), lines)

    def test_the_link_of_two_hosts(self):
        self.slow_down(2, "20mbit")
        text = "\n".join(self.lines_about(2))
        for link in ("node1 and node2", "node2 and node1"):
            self.assertRegex(text, f"(?m)^link between {link}: network bandwidth .*, the minimum ")
        self.assertNotRegex(text, "(?m)^node ")

    def test_require_excludes_the_host(self):
        self.slow_down(3, "20mbit")
        job = self.cluster("2:3", conf=NEVER, options=["--check=require"])
        nodes = job.start_all(3)
        ended, = job.ends(nodes[2], code=69)
        self.assertRegex(ended.err, "this node failed --check=require: .*network bandwidth")
        job.round(2, nodes=["node1", "node2"])
        job.finish(*nodes[:2])
