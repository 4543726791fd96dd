# SPDX-License-Identifier: Apache-2.0
"""Nodes on separate hosts: by name and by address, with realistic host names."""


from harness import free_port, read
from hosts import DNS, NETWORK, HostsCase

NEVER = "last_call_timeout=500"


class Names(HostsCase):
    def meet(self, endpoint=None, count=3, **how):
        if endpoint:
            how["endpoint"] = f"{endpoint}:{free_port()}"
        job = self.cluster(str(count), conf=NEVER, **how)
        nodes = [job.start(number) for number in reversed(range(1, count + 1))]
        one = job.round(count)
        job.finish(*nodes)
        return job, one

    def master(self, one):
        address, = {env["MASTER_ADDR"] for env in one.env.values()}
        return address

    def test_by_address_in_the_natural_order_of_names(self):
        self.hosts("node66", "node7", "node700")
        _, one = self.meet()
        self.assertEqual(one.nodes, ["node7", "node66", "node700"])
        self.assertEqual(self.master(one), NETWORK + "2")

    def test_by_name(self):
        self.hosts()
        _, one = self.meet("node1")
        self.assertEqual(one.nodes, list(self.names))
        self.assertEqual(self.master(one), NETWORK + "1")

    def test_by_the_long_name_in_capitals(self):
        self.hosts()
        _, one = self.meet("NODE1.Cluster")
        self.assertEqual(self.master(one), NETWORK + "1")

    def test_the_own_name_is_127_0_1_1_as_debian_has_it(self):
        hosts = self.hosts()
        for host in hosts:
            host.etc(hosts=f"127.0.0.1 localhost\n127.0.1.1 {host.name}\n" + "".join(
                f"{other.address} {other.name}\n" for other in hosts if other is not host))
        for endpoint in ("node1", NETWORK + "1"):
            _, one = self.meet(endpoint)
            self.assertEqual(self.master(one), NETWORK + "1")

    def test_the_own_name_is_known_nowhere(self):
        hosts = self.hosts()
        for host in hosts:
            host.etc(hosts="127.0.0.1 localhost\n")
        questions = self.net.trap_dns()
        _, one = self.meet()
        self.assertEqual(one.nodes, list(self.names))
        self.assertEqual(self.master(one), NETWORK + "1")
        self.assertEqual(read(questions), "ready\n", "a name was looked up")

    def test_by_address_no_name_is_ever_looked_up_not_even_when_nodes_are_lost(self):
        self.hosts()
        for host in self.net.hosts:
            host.etc(hosts="")
        questions = self.net.trap_dns()
        job = self.cluster("2:3", conf=NEVER + ",lease=1")
        nodes = job.start_all(3)
        job.round(3)
        nodes[0].kill_all()
        job.round(2)
        job.start(1)
        job.round(3)
        job.finish(*nodes[1:], job.nodes[-1])
        self.assertEqual(read(questions), "ready\n", "a name was looked up")

    def test_a_name_that_no_server_answers_for_does_not_delay_the_first_address(self):
        self.hosts("node1", "node2")
        questions = self.net.trap_dns()
        port = free_port()
        job = self.cluster("2", endpoint=f"{NETWORK}1:{port},alias.example:{port}")
        conf = "join_timeout=4,last_call_timeout=500,is_host="  # a lookup times out after 5 s
        nodes = [job.start(1, conf=conf + "true"), job.start(2, conf=conf + "false")]
        job.round(2)
        job.finish(*nodes)
        self.assertNotEqual(read(questions), "ready\n", "the name was not looked up")

    def test_the_trap_for_questions_catches(self):
        self.hosts("node1")
        self.net.hosts[0].etc(hosts="")
        questions = self.net.trap_dns()
        job = self.cluster("2", conf="join_timeout=2", endpoint="nowhere.example:4000")
        ended, = job.ends(job.start(1), code=69)
        self.assertIn("nowhere.example", ended.err)
        self.assertNotEqual(read(questions), "ready\n", DNS)

    def test_a_second_address_of_the_host(self):
        first, *_ = self.hosts()
        first.ip(f"addr add {NETWORK}99/24 dev eth0")
        _, one = self.meet(NETWORK + "99")
        self.assertIn(self.master(one), (NETWORK + "99", NETWORK + "1"))

    def test_the_interface_says_which_address(self):
        self.hosts()
        _, one = self.meet("node1", options=["--iface", "eth0"])
        self.assertEqual(self.master(one), NETWORK + "1")

    def test_rank_order_by_names(self):
        self.hosts()
        path = self.folder / "order"
        path.write_text("node3\nnode1.cluster\n")
        _, one = self.meet(options=["--rank-order", f"file:{path}"])
        self.assertEqual(one.nodes, ["node3", "node1", "node2"])

    def test_hosts_of_one_name_are_told_apart_by_their_addresses(self):
        hosts = self.hosts("a1", "a2", "a3")
        for host in hosts:
            host.run("hostname", "same")
        _, one = self.meet()
        self.assertEqual(one.nodes, ["a1", "a2", "a3"])

    def test_ipv6(self):
        for host in self.hosts():
            host.ip(f"addr add fd77::{host.number}/64 dev eth0 nodad")
        _, one = self.meet("[fd77::1]")
        self.assertEqual(self.master(one), "fd77::1")

    def test_a_name_with_addresses_of_both_kinds(self):
        for host in self.hosts():
            host.ip(f"addr add fd77::{host.number}/64 dev eth0 nodad")
            host.etc(hosts="127.0.0.1 localhost\n::1 localhost\n" + "".join(
                f"fd77::{i} node{i}\n{NETWORK}{i} node{i}\n" for i in (1, 2, 3)))
        _, one = self.meet("node1")
        self.assertIn(self.master(one), (NETWORK + "1", "fd77::1"))

    def test_workers_reach_the_store_over_another_ip_version_than_their_agent(self):
        for host in self.hosts():
            host.ip(f"addr add fd77::{host.number}/64 dev eth0 nodad")
            own = NETWORK + "1" if host.number == 1 else "fd77::1"
            host.etc(hosts=f"127.0.0.1 localhost\n::1 localhost\n{own} node1\n")
        _, one = self.meet("node1")
        self.assertEqual(self.master(one), NETWORK + "1")

    def test_link_local_addresses_where_each_host_names_its_interface_itself(self):
        for host in self.hosts():
            card = f"card{host.number}"
            host.ip("link set eth0 down", f"link set eth0 name {card}", f"addr flush dev {card}",
                    f"link set {card} up", f"addr add fe80::{host.number}/64 dev {card} nodad")
        job = self.cluster("2:3", conf="last_call_timeout=2,lease=1")
        port = free_port()
        nodes = [job.start(number, endpoint=f"[fe80::1%card{number}]:{port}")
                 for number in (1, 2, 3)]
        # Each worker received the master's address under the name that the worker's host uses.
        for world, master in ((3, 1), (2, 2)):
            one = job.round(world)
            self.assertEqual([one.env[rank]["MASTER_ADDR"] for rank in range(world)],
                             [f"fe80::{master}%card{number}" for number in range(master, 4)])
            if world == 3:
                nodes[0].kill_all()  # node3 connects to node2 at the address that node2 announced
        job.finish(*nodes[1:])

    def test_static(self):
        self.hosts()
        job = self.cluster("3", backend="static", endpoint=f"node1:{free_port()}")
        for number in (3, 2, 1):
            job.start(number, options=["--node-rank", number - 1])
        one = job.round(3)
        self.assertEqual(self.master(one), "node1")
        self.assertEqual({env["MASTER_PORT"] for env in one.env.values()},
                         {job.endpoint.partition(":")[2]})
        job.finish()

    def test_static_two_machines_are_told_to_be_the_first(self):
        self.hosts()
        job = self.cluster("2", backend="static", endpoint=f"node1:{free_port()}")
        right, wrong = (job.start(number, options=["--node-rank", 0]) for number in (1, 2))
        wrong.wait_for_text("(other nodes look for the first node at " + job.endpoint,
                            "which is not an address of this host: does another host")
        right.wait_for_text("waiting for 1 more; giving up")
        for node in (right, wrong):
            node.kill(15)
        job.ends(right, wrong, code=143)

    def test_nobody_has_the_endpoints_address(self):
        self.hosts()
        job = self.cluster("3", conf="join_timeout=10", endpoint=f"{NETWORK}200:4000")
        ended, = job.ends(job.start(1), code=69)
        self.assertRegex(ended.err, rf"cannot reach {NETWORK}200:4000: .*(unreachable|No route)")
        self.assertEqual(job.story.events(), [])
