# SPDX-License-Identifier: Apache-2.0
"""Access to the workers' store from another host: only the job's workers are admitted."""


from store_rig import OTHER_USER, StoreCase

ADDRESS = "10.77.0.1"


class Direct(StoreCase):
    def test_the_workers_of_all_hosts_get_in(self):
        self.begin(None)
        for rank in (0, 1):
            heard, address, _, _ = self.said(rank)
            self.assertEqual((heard, address), ("in", ADDRESS))
        for ended in self.end_job():
            self.assertEqual(ended.said, "")

    def test_a_process_of_the_host_that_is_not_of_the_job_is_refused(self):
        self.begin(None)
        port = self.said(1)[2]
        self.assert_refused(self.stranger(self.net.hosts[1], ADDRESS, port))
        self.nodes[0].wait_for_text("belongs to a process on node 'node2' that is not part of this")
        self.end_job()

    def test_another_user_of_the_host_is_refused_and_named_once(self):
        self.begin(None)
        port = self.said(1)[2]
        for _ in range(3):
            self.assert_refused(self.stranger(self.net.hosts[1], ADDRESS, port, OTHER_USER))
        self.nodes[0].wait_for_text("it belongs to another user on node 'node2'")
        first, _ = self.end_job()
        self.assertEqual(first.err.count("refused the connection from"), 1)

    def test_another_user_of_the_hosts_own_machine_is_refused(self):
        self.begin(None)
        port = self.said(1)[2]
        self.assert_refused(self.stranger(self.net.hosts[0], ADDRESS, port, OTHER_USER))
        self.end_job()

    def test_a_host_that_is_not_of_the_job_is_refused(self):
        self.begin(None, hosts=("node1", "node2", "node3"))
        port = self.said(1)[2]
        self.assert_refused(self.stranger(self.net.hosts[2], ADDRESS, port))
        self.nodes[0].wait_for_text("no node of this job has the address 10.77.0.3",
                                    "--store-via=proxy")
        self.end_job()

    def test_with_open_everybody_gets_in(self):
        self.begin("open", hosts=("node1", "node2", "node3"))
        port = self.said(1)[2]
        self.assertEqual(self.stranger(self.net.hosts[2], ADDRESS, port), "in")
        self.assertEqual(self.stranger(self.net.hosts[1], ADDRESS, port, OTHER_USER), "in")
        self.end_job()

    def test_the_store_need_not_be_where_the_coordinator_is(self):
        # node2 owns the endpoint and leads; node1 has the first rank because of its name.
        self.begin_on_second()
        for rank in range(3):
            self.assertEqual(self.said(rank)[:2], ("in", ADDRESS))
        self.assert_refused(self.stranger(self.net.hosts[2], ADDRESS, self.said(2)[2]))
        self.end_job()


class Proxy(StoreCase):
    def test_the_workers_of_all_hosts_get_in_at_127_0_0_1(self):
        self.begin("proxy")
        for rank in (0, 1):
            heard, address, _, _ = self.said(rank)
            self.assertEqual((heard, address), ("in", "127.0.0.1"))
        for ended in self.end_job():
            self.assertEqual(ended.said, "")

    def test_nothing_of_the_store_listens_towards_other_hosts(self):
        self.begin("proxy", hosts=("node1", "node2", "node3"))
        for rank, host in ((0, ADDRESS), (1, "10.77.0.2")):
            port = self.said(rank)[2]
            self.assertIn("refused", self.stranger(self.net.hosts[2], host, port))
        self.end_job()

    def test_another_user_of_either_host_is_refused(self):
        self.begin("proxy")
        for rank, host in enumerate(self.net.hosts):
            port = self.said(rank)[2]
            self.assert_refused(self.stranger(host, "127.0.0.1", port, OTHER_USER))
            self.nodes[rank].wait_for_text("only root may connect on this host")
        self.end_job()

    def test_the_store_need_not_be_where_the_coordinator_is(self):
        self.begin_on_second("proxy")
        for rank in range(3):
            self.assertEqual(self.said(rank)[:2], ("in", "127.0.0.1"))
        self.end_job()

    def test_the_node_of_rank_0_decides(self):
        self.begin_apart("proxy", "direct")
        for rank in (0, 1):
            self.assertEqual(self.said(rank)[:2], ("in", "127.0.0.1"))
        self.end_job()


class Translated(StoreCase):
    """node2's packets leave from a different address than it believes."""

    def begin(self, via, hosts=("node1", "node2"), nodes=2, **how):
        self.hosts(*hosts)
        host = self.net.hosts[1]
        host.ip("addr add 10.77.0.102/24 dev eth0")
        host.run("nft", "-f", "-", given="\n".join((
            "table ip translated {", "chain out {", "type nat hook postrouting priority 100;",
            "ip saddr 10.77.0.2 ip daddr 10.77.0.1 snat to 10.77.0.102;", "}", "}", "")))
        return super().begin(via, hosts=None, nodes=nodes, **how)

    def test_direct_says_what_to_do(self):
        self.begin("direct")
        self.assert_refused(self.said(1)[0])
        self.nodes[0].wait_for_text("refused the connection from 10.77.0.102",
                                    "node 'node2' has no such connection",
                                    "if addresses are translated between the nodes, use "
                                    "--store-via=proxy")
        self.end_job()

    def test_proxy_works(self):
        self.begin("proxy")
        for rank in (0, 1):
            self.assertEqual(self.said(rank)[:2], ("in", "127.0.0.1"))
        self.end_job()
