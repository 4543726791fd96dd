# SPDX-License-Identifier: Apache-2.0
"""Workers fail, agents die, nodes leave: the others continue, and no two rounds run at the same
time (checked at the end of every test)."""

import os
import signal

from nodes import LEASE, LONG_LEASE, Node, NodesCase, last_block

CONF = f"last_call_timeout=0.5,lease={LEASE}"
DEAF = {"NODE_ON_TERM": "ignore"}
ENDS_WITHIN = 3.0  # s: the promised limit for all agents of a job that has used up its budget


class Workers(NodesCase):
    def fails_once(self, how, rank=2):
        job, _, one = self.form("3", 3, nproc=2, conf=LONG_LEASE, options=["--max-restarts", "2"])
        job.order(one, rank, how)
        again = job.round(6)
        self.assertEqual((again.restarts, again.nodes), (1, one.nodes))
        said = [ended.err.count(f"rank {rank} on") for ended in job.finish()]
        self.assertEqual(sorted(said), [0, 0, 1],
                         "the node that leads says why, once\n" + job.describe())

    def test_one_that_exits_makes_all_nodes_start_again(self):
        self.fails_once("exit 3")

    def test_one_that_is_killed(self):
        self.fails_once("signal 9", rank=0)

    def test_one_that_raises_on_the_last_node(self):
        self.fails_once("fail ValueError: no", rank=5)

    def test_budget_is_of_the_whole_job(self):
        job = self.cluster("3", conf=LONG_LEASE, options=["--max-restarts", "2"])
        job.start_all(3)
        for turn in range(3):
            one = job.round(3)
            self.assertEqual(one.restarts, turn)
            job.order(one, turn, f"exit {10 + turn}")  # on a different node each time
        job.ends(code=12)


    DELAY = "before any restart (--restart-delay)"

    def test_all_nodes_wait_for_the_delay_of_the_failed_ones(self):
        job, nodes, one = self.form("2", 2, conf=LONG_LEASE,
                                    options=["--max-restarts", "1", "--restart-delay", "0.3"])
        job.order(one, 1, "exit 3")
        nodes[1].wait_for_text("waiting 300ms " + self.DELAY)
        self.assertEqual(job.round(2).restarts, 1)
        job.finish()
        self.assertNotIn(self.DELAY, nodes[0].err())

    def test_a_signal_ends_the_delay_and_the_others_go_on(self):
        job, nodes, one = self.form("1:2", 2,
                                    conf="last_call_timeout=0.5,lease=60,join_timeout=3600",
                                    options=["--max-restarts", "1", "--restart-delay", "3500"])
        job.order(one, 1, "exit 3")
        nodes[1].wait_for_text(self.DELAY)
        nodes[1].kill(signal.SIGTERM)
        job.ends(nodes[1], code=143)
        self.assertEqual(job.round(1).restarts, 1)
        job.finish(nodes[0])


class OutOfBudget(NodesCase):
    def end_all(self, how, code, nproc=1):
        job, nodes, one = self.form("3", 3, nproc=nproc, conf=LONG_LEASE)
        job.order(one, nproc, how)  # the first rank on the second node
        ended = [node.end(ENDS_WITHIN + 30) for node in nodes]
        ends = [node.started + one.seconds for node, one in zip(nodes, ended)]
        self.assertLess(max(ends) - min(ends), ENDS_WITHIN, job.describe())
        self.assertEqual([one.code for one in ended], [code] * 3, job.describe())
        blocks = [last_block(one) for one in ended]
        self.assertEqual(blocks[0], blocks[1])
        self.assertEqual(blocks[0], blocks[2])
        return blocks[0]

    def test_same_code_and_same_report_everywhere(self):
        block = self.end_all("fail Traceback of mine, the last line", 1)
        self.assertIn("rank 1 exited with code 1", block[0])
        self.assertIn("local rank 0", block[1])
        self.assertTrue(any("Traceback of mine, the last line" in line for line in block), block)

    def test_a_signal(self):
        block = self.end_all("signal 11", 139, nproc=2)
        self.assertIn("rank 2", block[0])
        self.assertIn("SIGSEGV", block[0])

    def test_an_exit_code_of_its_own(self):
        self.end_all("exit 77", 77)

    def test_failures_that_follow_do_not_hide_the_first(self):
        # Every other worker fails as soon as the first one has; the news arrives in different
        # orders.
        job, nodes, one = self.form("3", 3, env=DEAF, conf=LONG_LEASE,
                                    options=["--shutdown-timeout", 2])
        job.order(one, 1, "exit 41")
        job.order(one, 0, "exit 42")
        job.order(one, 2, "exit 43")
        codes = {node.end().code for node in nodes}
        self.assertEqual(len(codes), 1, job.describe())

    def test_a_program_that_cannot_be_started_on_one_node_is_not_tried_again(self):
        script = self.executable("#!/no/such/interpreter\n")
        job = self.cluster("2", conf=LONG_LEASE + ",any_program=true",
                           options=["--max-restarts", 5])
        job.start(1)
        job.start(2, program=str(script))
        first, second = job.ends(code=127)
        self.assertEqual(last_block(first), last_block(second))
        self.assertIn("rank 1", first.err)


class Agents(NodesCase):
    """The death of the agent, of the guard, or of both: detected through the connection, not the
    lease."""

    def lose(self, victim, kill, code):
        job, nodes, _ = self.form("2:3", 3, conf=LONG_LEASE)
        kill(nodes[victim])
        rest = [node for node in nodes if node is not nodes[victim]]
        again = job.round(2, nodes=[node.label for node in rest])
        self.assertEqual(again.restarts, 0, "a change of membership uses up nothing")
        lost, = job.ends(nodes[victim], code=code)
        if kill is Node.kill_guard:
            self.assertIn("the launcher was killed; its workers were killed too\n", lost.err)
        self.assert_nothing_left(nodes[victim])
        back = job.start(victim + 1)
        full = job.round(3)
        self.assertIn(back.label, full.nodes)
        for ended in job.finish(*rest, back)[:2]:
            self.assertRegex(ended.err, "muster: warning: node '.*is gone; stopping the workers")
            self.assertRegex(ended.err, "the job continues with 2 nodes and 2 workers; lost: ")
            self.assertRegex(ended.err, "muster: warning: node '.*' joins; stopping the workers")
            self.assertRegex(ended.err, "with 3 nodes and 3 workers; joined: ")

    def test_agent_of_a_member(self):
        self.lose(2, Node.kill_agent, 137)

    def test_agent_of_the_host(self):
        self.lose(0, Node.kill_agent, 137)

    def test_guard_of_a_member(self):
        self.lose(1, Node.kill_guard, -9)

    def test_guard_of_the_host(self):
        self.lose(0, Node.kill_guard, -9)

    def test_everything_of_a_member(self):
        self.lose(1, Node.kill_all, -9)

    def test_everything_of_the_host(self):
        self.lose(0, Node.kill_all, -9)

    def test_one_after_the_other_down_to_one_and_up_again(self):
        job, nodes, _ = self.form("1:4", 4, conf=LONG_LEASE)
        for left in (3, 2, 1):
            nodes[3 - left].kill_agent()  # always the host, because the lowest rank leads
            job.round(left, nodes=[node.label for node in nodes[4 - left:]])
        for number in (1, 2, 3):
            nodes.append(job.start(number))
            job.round(number + 1)
        job.finish(*nodes[3:])

    def test_deaf_workers_are_gone_before_the_next_round(self):
        job, nodes, _ = self.form("2:3", 3, env=DEAF, conf=LONG_LEASE,
                                  options=["--shutdown-timeout", 1])
        nodes[0].kill_agent()
        job.round(2)
        job.finish(*nodes[1:])


class Leaving(NodesCase):
    def leave(self, who, signo, nnodes="2:3"):
        job, nodes, one = self.form(nnodes, 3, conf=LONG_LEASE)
        nodes[who].kill(signo)
        rest = [node for node in nodes if node is not nodes[who]]
        again = job.round(2, nodes=[node.label for node in rest])
        self.assertEqual((one.restarts, again.restarts), (0, 0))
        ended, = job.ends(nodes[who], code=128 + signo)
        self.assertIn("interrupted", ended.err)
        job.finish(*rest)

    def test_a_member(self):
        self.leave(1, signal.SIGTERM)

    def test_the_host(self):
        self.leave(0, signal.SIGTERM)

    def test_control_c(self):
        self.leave(2, signal.SIGINT)

    def test_below_the_minimum_the_others_wait_and_go_on_with_a_new_one(self):
        job, nodes, _ = self.form("3", 3, conf=LONG_LEASE)
        nodes[2].kill(signal.SIGTERM)
        job.ends(nodes[2], code=143)
        nodes[0].wait_for_text("2 of 3")
        new = job.start(4)
        job.round(3, nodes=["n1", "n2", "n4"])
        job.finish(*nodes[:2], new)

    def test_while_it_waits_for_others(self):
        job = self.cluster("3", conf=LONG_LEASE)
        nodes = job.start_all(2)
        nodes[0].wait_for_text("2 of 3")
        nodes[1].kill(signal.SIGTERM)
        job.ends(nodes[1], code=143)
        nodes[0].wait_for_text("1 of 3")
        new = [job.start(3), job.start(4)]
        job.round(3)
        job.finish(nodes[0], *new)

    def test_all_at_once_as_a_scheduler_ends_a_job(self):
        for signo in (signal.SIGTERM, signal.SIGINT):
            job, nodes, one = self.form("3", 3, conf=LONG_LEASE)
            for node in nodes:
                node.kill(signo)
            for ended in job.ends(*nodes, code=128 + signo):
                self.assertNotIn("rank", ended.err, "nobody failed")
            self.assertEqual([each.name for each in job.story.rounds()], [one.name])

    def test_a_leaver_with_deaf_workers_is_waited_for(self):
        job, nodes, _ = self.form("2:3", 3, env=DEAF, conf=LONG_LEASE,
                                  options=["--shutdown-timeout", 1])
        nodes[1].kill(signal.SIGTERM)
        job.round(2, nodes=["n1", "n3"])
        job.ends(nodes[1], code=143)
        job.finish(nodes[0], nodes[2])


class Together(NodesCase):
    def test_a_worker_fails_while_another_nodes_agent_dies(self):
        # The failure may be a consequence of the death, so it uses none of the budget (which is
        # zero).
        job, nodes, one = self.form("2:3", 3, conf=LONG_LEASE)
        nodes[2].kill_agent()
        job.order(one, 0, "exit 5")
        job.order(one, 1, "exit 6")
        job.round(2, nodes=["n1", "n2"])
        job.finish(*nodes[:2])

    def test_two_workers_of_two_nodes_fail_at_once(self):
        job, nodes, one = self.form("3", 3, conf=LONG_LEASE, options=["--max-restarts", 1])
        job.order(one, "all", "exit 5")
        self.assertEqual(job.round(3).restarts, 1)
        job.finish(*nodes)

    def test_the_host_dies_while_workers_are_being_stopped(self):
        job, nodes, one = self.form("2:3", 3, env=DEAF, conf=LONG_LEASE,
                                    options=["--max-restarts", 1, "--shutdown-timeout", 2])
        job.order(one, 1, "exit 5")
        nodes[0].kill_agent()
        job.round(2, nodes=["n2", "n3"])
        job.finish(*nodes[1:])


class Nothing(NodesCase):
    def test_survives_when_all_are_killed(self):
        job, nodes, _ = self.form("2", 2, nproc=2, conf=CONF)
        for node in nodes:
            os.kill(node.process.pid, signal.SIGKILL)
        for node in nodes:
            node.process.wait()
            self.assert_nothing_left(node)
