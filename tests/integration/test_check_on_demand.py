# SPDX-License-Identifier: Apache-2.0
"""musterctl check: nodes of a running job are measured and compared again."""

import json
import subprocess
import unittest

from defects import after, in_mount_namespace
from harness import DEADLINE, eventually
from job_view import MUSTERCTL, ctl, wait_until_ready
from nodes import NEVER
from test_check import CHECK_WITHIN, CheckCase, needs_root

# Not measured while workers run.
CHANGED_BY_WORKERS = {"cpu_speed", "memory_bandwidth", "gpu_memory_used"}
PLENTY_OF_SHM = "mount -t tmpfs -o size=300m none /dev/shm"


def check(node, *options, code=0):
    """Both streams of musterctl check, which must exit with `code`."""
    done = subprocess.run([MUSTERCTL, "check", "--pid", str(node.process.pid), *options],
                          capture_output=True, text=True, stdin=subprocess.DEVNULL,
                          timeout=DEADLINE)
    assert done.returncode == code, done
    return done.stdout + done.stderr


class OneNode(CheckCase):
    def test_a_job_without_the_option_is_checked_on_demand(self):
        folder, options = self.logs()
        with self.job(*self.puppets(1, "wait", options=options)) as job:
            wait_until_ready(job)
            text = check(job)
            self.assertRegex(text, r"^1 node: no defects\nmedian of all nodes:\n  usable CPUs ")
            self.assertIn("not measured while workers run: CPU speed", text)
            verdict = json.loads(check(job, "--json"))
            self.assertEqual((verdict["event"], verdict["nodes"], verdict["findings"],
                              verdict["workers_ran"]), ("check", 1, [], True))
            metrics = {one["metric"] for one in verdict["summary"]}
            self.assertLessEqual({"cpus", "shm_size", "disk_free", "open_files"}, metrics)
            self.assertEqual(metrics & CHANGED_BY_WORKERS, set())
            self.assertEqual(self.checks(folder)[-1], verdict)
            self.assertEqual(json.loads(ctl("report", "--json", "--pid", job.process.pid))
                             ["check"]["time"], verdict["time"])


class SeveralNodes(CheckCase):
    def form_two(self, **second):
        self.logs_at, options = self.logs()
        job = self.cluster("2", conf=NEVER, options=options)
        nodes = [*job.start_all(1), job.start(2, popen=second)]
        job.round(2)
        return job, nodes

    def assert_undisturbed(self, job, nodes):
        self.assertEqual(len(job.story.rounds()), 1)
        for ended in job.finish(*nodes):
            self.assertNotIn("check", ended.err)

    def test_a_slow_measurement_does_not_delay_the_verdict(self):
        folder, options = self.logs()
        job = self.cluster("2", conf=NEVER, options=options)
        first, = job.start_all(1)
        second = job.start(2, env=self.smi("kill -STOP $PPID; exec sleep 1000"),
                           popen={"prefix": after("ulimit -Sn 200")})
        job.round(2)
        verdict = json.loads(check(first, "--json", code=1))
        self.assertEqual([one["metric"] for one in verdict["findings"]], ["open_files"])
        self.assertIn("links between the nodes: no time was left", verdict["unmeasured"])
        self.assertRegex("\n".join(verdict["unmeasured"]), "node .*: GPUs: no result in time")
        self.assertLess(verdict["seconds"], CHECK_WITHIN)
        job.finish(first, second)

    def test_every_node_can_be_asked_and_learns_the_verdict(self):
        job, nodes = self.form_two()
        for number, node in enumerate(nodes, 1):
            verdict = json.loads(check(node, "--json"))
            self.assertEqual((verdict["nodes"], verdict["findings"], verdict["unmeasured"],
                              verdict["workers_ran"]), (2, [], [], True))
            metrics = {one["metric"]: one["compared"] for one in verdict["summary"]}
            self.assertEqual(set(metrics) & CHANGED_BY_WORKERS, set())
            self.assertIs(metrics["clock_offset"], True)
            self.assertIs(metrics["bandwidth"], False)
            eventually(lambda: len(self.checks(self.logs_at)) == 2 * number,
                       "both nodes have the verdict")
        self.assert_undisturbed(job, nodes)

    def test_two_at_once(self):
        job, nodes = self.form_two()
        asked = [subprocess.Popen([MUSTERCTL, "check", "--pid", str(node.process.pid)],
                                  stdout=subprocess.PIPE, text=True)
                 for node in [*nodes, nodes[0]]]
        for one in asked:
            self.assertIn("2 nodes: no defects", one.communicate(timeout=DEADLINE)[0])
            self.assertEqual(one.returncode, 0)
        self.assert_undisturbed(job, nodes)

    def test_a_defect_is_named_and_excludes_no_node(self):
        job, nodes = self.form_two(prefix=after("ulimit -Sn 200"))
        text = check(nodes[0], code=1)
        self.assertRegex(text, "^2 nodes: 1 defect\nnode .*: limit of open files 200, the minimum "
                               "is 1024\n")
        self.assert_undisturbed(job, nodes)

    @needs_root
    def test_nodes_are_measured_again(self):
        job, nodes = self.form_two(prefix=in_mount_namespace(PLENTY_OF_SHM))
        full = "node .*: free space in /dev/shm 20 MiB, the minimum is 64 MiB"
        # Another /dev/shm than that of the first node.
        self.assertNotRegex(check(nodes[0], code=1), full)
        pid = nodes[1].agent()
        fill = ["nsenter", "-t", str(pid), "-m", "sh", "-c",
                "head -c 280M /dev/zero > /dev/shm/full"]
        subprocess.run(fill, check=True)
        self.assertRegex(check(nodes[0], code=1), full)
        self.assert_undisturbed(job, nodes)

    def test_while_a_node_is_missing_there_is_no_check(self):
        job = self.cluster("2", conf=NEVER)
        node, = job.start_all(1)
        node.wait_for_text("waiting for")
        self.assertIn("cannot check the nodes: no round has begun yet", check(node, code=1))
        node.kill_all()

    def test_a_node_that_does_not_answer(self):
        job = self.cluster("2", conf=f"{NEVER},lease=60")
        nodes = job.start_all(2)
        job.round(2)
        nodes[1].stop_all()
        text = check(nodes[0])
        self.assertRegex(text, "not measured: node .*: no answer in time")
        nodes[1].thaw_at_once()
        job.finish(*nodes)


if __name__ == "__main__":
    unittest.main()
