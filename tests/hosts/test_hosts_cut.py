# SPDX-License-Identifier: Apache-2.0
"""Networks that are cut and heal: the side with a majority continues; the other side stops its
workers in time, waits, and prints why. No two rounds ever run at the same time (checked by every
test)."""

from hosts import NETWORK, HostsCase
from nodes import NEVER, SHORT_LEASE

CUTS = {
    "link": (lambda host: host.unplug(), lambda host: host.plug()),
    "drop": (lambda host: host.firewall("drop"), lambda host: host.open()),
    # Answers with ICMP, so connect() returns "refused", as for a port without a listener.
    "reject": (lambda host: host.firewall("reject with icmp type port-unreachable"),
               lambda host: host.open()),
}


class Cut(HostsCase):
    names = ("node1", "node2", "node3")

    def running(self, nnodes="1:3", *names, conf=SHORT_LEASE):
        self.hosts(*names)
        job, nodes, _ = self.form(nnodes, len(self.net.hosts), conf=conf)
        return job, nodes

    def cut_and_heal(self, how, numbers, nnodes="1:3", names=()):
        """Cuts off these hosts; the others are the majority. After that all form one job again."""
        cut, heal = CUTS[how]
        job, nodes = self.running(nnodes, *names)
        hosts = [self.net.hosts[number - 1] for number in numbers]
        rest = [node for i, node in enumerate(nodes, 1) if i not in numbers]
        for host in hosts:
            cut(host)
        one = job.round(len(rest), nodes=[node.label for node in rest])
        self.assertEqual(one.restarts, 0)
        for number in numbers:
            nodes[number - 1].wait_for_text("killed this node's workers", "waiting for")
        self.assertEqual(job.story.rounds()[-1].name, one.name, "the cut off side starts nothing")
        for host in hosts:
            heal(host)
        full = job.round(len(nodes))
        self.assertEqual(full.restarts, 0)
        job.finish(*nodes)

    def test_a_member_by_its_link(self):
        self.cut_and_heal("link", [3])

    def test_a_member_by_a_firewall_that_drops(self):
        self.cut_and_heal("drop", [3])

    def test_a_member_by_a_firewall_that_rejects(self):
        self.cut_and_heal("reject", [3])

    def test_the_host_by_its_link(self):
        self.cut_and_heal("link", [1])

    def test_the_host_by_a_firewall_that_drops(self):
        self.cut_and_heal("drop", [1])

    def test_the_host_by_a_firewall_that_rejects(self):
        self.cut_and_heal("reject", [1])

    def test_the_host_and_another_of_five(self):
        self.cut_and_heal("drop", [1, 2], "1:5", [f"node{i}" for i in range(1, 6)])

    def test_a_majority_is_cut_off_each_for_itself(self):
        # No side has a majority, so none runs. All print for which nodes they wait, and then all
        # continue.
        # The lease outlasts the time between the two cuts. Otherwise two nodes are a majority.
        job, nodes = self.running(conf=f"{NEVER},lease=6")
        for host in self.net.hosts[1:]:
            host.firewall("drop")
        for node in nodes:
            node.wait_for_text(*(f"{other.label} (silent" for other in nodes if other is not node))
        for node in nodes[1:]:
            node.wait_for_text("killed this node's workers")
        self.assertEqual(len(job.story.rounds()), 1, "nobody has started anything")
        for host in self.net.hosts[1:]:
            host.open()
        job.round(3)
        job.finish(*nodes)

    def test_the_host_is_alone_and_the_others_are_more(self):
        # Four nodes: node1 alone, the three others together.
        self.cut_and_heal("link", [1], "1:4", ["node1", "node2", "node3", "node4"])

    def test_half_with_the_first_rank_goes_on(self):
        job, nodes = self.running("1:2", "node1", "node2")
        self.net.hosts[1].unplug()
        job.round(1, nodes=["node1"])
        nodes[1].wait_for_text("killed this node's workers", "waiting for")
        self.net.hosts[1].plug()
        job.round(2)
        job.finish(*nodes)

    def test_an_icmp_refusal_is_no_proof_of_death(self):
        # The second of two nodes connects to the first one's port, and a firewall "refuses" it. If
        # it took this for the first one's death, it would run at the same time as the first.
        job, nodes = self.running("1:2", "node1", "node2")
        self.net.hosts[0].firewall("reject with icmp type port-unreachable")
        job.round(1, nodes=["node1"])
        nodes[1].wait_for_text("killed this node's workers", "waiting for")
        self.assertNotIn("is gone", nodes[1].err())
        self.net.hosts[0].open()
        job.round(2)
        job.finish(*nodes)

    def test_a_host_that_loses_its_power(self):
        # Everything stops without any message: cut first, then killed.
        job, nodes = self.running("2:3")
        self.net.hosts[0].firewall("drop")
        nodes[0].kill_all()
        job.round(2, nodes=["node2", "node3"])
        self.net.hosts[0].open()
        job.start(1)
        job.round(3)
        job.finish(*nodes[1:], job.nodes[-1])

    def test_the_first_of_two_loses_its_power_and_returns(self):
        # Longer than a lease, so that the other one cannot know what it did before.
        job, nodes = self.running("2", "node1", "node2")
        self.net.hosts[0].firewall("drop")
        nodes[1].wait_for_text("killed this node's workers", "waiting for")
        nodes[0].kill_all()
        self.net.hosts[0].open()
        job.start(1)
        self.assertEqual(job.round(2, nodes=["node1~2", "node2"]).restarts, 0)
        job.finish(nodes[1], job.nodes[-1])

    def test_the_endpoint_is_gone_and_others_are_found_by_the_list(self):
        self.hosts("node1", "node2", "node3", "node4")
        port = 4711
        endpoint = ",".join(f"{NETWORK}{i}:{port}" for i in (1, 2, 3))
        job, nodes, _ = self.form("2:3", 3, conf=SHORT_LEASE, endpoint=endpoint)
        self.net.hosts[0].unplug()
        nodes[0].kill_all()
        job.round(2, nodes=["node2", "node3"])
        new = job.start(4)
        job.round(3, nodes=["node2", "node3", "node4"])
        job.finish(nodes[1], nodes[2], new)
