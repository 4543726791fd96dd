# SPDX-License-Identifier: Apache-2.0
"""--check: nodes with defects are named before the workers start, and excluded if required."""

import json
import os
import shutil
import unittest

from defects import HEALTHY_SMI, after, fake_smi, in_mount_namespace
from nodes import NEVER, NodesCase

CHECK_WITHIN = 5.0  # s; muster promises it for two nodes

SMALL_SHM = "mount -t tmpfs -o size=32m none /dev/shm"


def needs_root(test):
    is_able = os.geteuid() == 0 and shutil.which("unshare")
    return unittest.skipUnless(is_able, "needs root and unshare, to mount file systems")(test)


class CheckCase(NodesCase):
    def logs(self):
        folder = self.folder / "logs"
        return folder, [f"--log-dir={folder}"]

    def checks(self, folder):
        """The verdicts in the events of a job."""
        lines = [line for path in folder.rglob("events.jsonl")
                 for line in path.read_text().splitlines()]
        return [one for one in map(json.loads, lines) if one["event"] == "check"]

    def smi(self, text, exit_code=0):
        """An environment in which nvidia-smi prints this text."""
        return fake_smi(self.folder / "bin", text, exit_code)


class OneNode(CheckCase):
    def run_checked(self, *options, option="--check", code=0, **how):
        return self.run_job(option, *options, "--no-python", "echo", "ran", code=code, **how)

    def assert_named(self, text, **how):
        ended = self.run_checked(**how)
        self.assertIn("ran", ended.out)
        self.assertRegex(ended.err, "muster: warning: check: node .*: " + text)

    def test_a_healthy_node_is_not_named(self):
        folder, options = self.logs()
        ended = self.run_checked(*options, env=self.smi(f"echo '{HEALTHY_SMI}'"))
        self.assertNotIn("check:", ended.err)
        check, = self.checks(folder)
        self.assertEqual((check["nodes"], check["findings"], check["unmeasured"]), (1, [], []))
        metrics = {one["metric"] for one in check["summary"]}
        self.assertLessEqual({"cpus", "cpu_speed", "memory_bandwidth", "memory_free", "shm_size",
                              "disk_free", "open_files", "processes", "gpus", "gpu_ecc_errors"},
                             metrics)
        self.assertLess(check["seconds"], CHECK_WITHIN)

    def test_without_the_option_nothing_is_measured(self):
        marker = self.folder / "asked"
        folder, options = self.logs()
        self.run_job(*options, "--no-python", "true", code=0, env=self.smi(f"touch {marker}"))
        self.assertFalse(marker.exists())
        self.assertEqual(self.checks(folder), [])

    def test_the_report_of_a_failed_job_contains_the_check(self):
        folder, options = self.logs()
        self.run_job("--check", *options, "--no-python", "false", code=1)
        report, = [json.loads(path.read_text()) for path in folder.rglob("report.json")]
        check, = self.checks(folder)
        self.assertEqual(report["check"], {name: value for name, value in check.items()
                                           if name not in ("v", "event", "node")})
        self.assertGreater(report["account"]["total_us"], 0)

    def test_few_open_files(self):
        self.assert_named("limit of open files 200, the minimum is 1024",
                          prefix=after("ulimit -Sn 200"))

    @needs_root
    def test_a_small_shm(self):
        self.assert_named("size of /dev/shm 32 MiB, the minimum is 128 MiB",
                          prefix=in_mount_namespace(SMALL_SHM))

    @needs_root
    def test_a_full_shm(self):
        full = "mount -t tmpfs -o size=200m none /dev/shm && head -c 190M /dev/zero > /dev/shm/x"
        self.assert_named("free space in /dev/shm 10 MiB, the minimum is 64 MiB",
                          prefix=in_mount_namespace(full))

    @needs_root
    def test_a_full_disk(self):
        folder, options = self.logs()
        folder.mkdir()
        full = f"mount -t tmpfs -o size=20m none {folder}"
        ended = self.run_checked(*options, prefix=in_mount_namespace(full))
        self.assertRegex(ended.err, "free disk space for logs [0-9]+ MiB, the minimum is 100 MiB")

    @needs_root
    def test_few_inodes(self):
        folder, options = self.logs()
        folder.mkdir()
        few = f"mount -t tmpfs -o size=200m,nr_inodes=100 none {folder}"
        ended = self.run_checked(*options, prefix=in_mount_namespace(few))
        self.assertRegex(ended.err, "free inodes for logs [0-9]+, the minimum is 1000")

    def test_errors_of_gpus(self):
        self.assert_named("uncorrected GPU memory errors 3, the maximum is 0",
                          env=self.smi("echo '3, Not Active, Not Active, Not Active, 4'"))
        self.assert_named("throttled GPUs 1, the maximum is 0",
                          env=self.smi("echo '0, Active, Not Active, Not Active, 4'"))
        self.assert_named("GPU memory in use 19.5 GiB, the maximum is 1.0 GiB",
                          env=self.smi("echo '0, Not Active, Not Active, Not Active, 20000'"))

    def test_what_is_not_measured_is_named(self):
        ended = self.run_checked(env=self.smi("exec sleep 1000"))
        self.assertRegex(ended.err, "check: not measured: node .*: GPUs: ")
        self.assertIn("ran", ended.out)
        self.assertLess(ended.seconds, 30)

    def test_require_ends_the_job_before_the_workers_start(self):
        ended = self.run_checked(option="--check=require", code=69,
                                 prefix=after("ulimit -Sn 200"))
        self.assertEqual(ended.out, "")
        self.assertIn("this node failed --check=require: limit of open files 200, the minimum is "
                      "1024", ended.err)


class SeveralNodes(CheckCase):
    def test_healthy_nodes_are_not_named(self):
        folder, options = self.logs()
        job = self.cluster("2", conf=NEVER, options=["--check", *options])
        nodes = job.start_all(2)
        job.round(2)
        for ended in job.finish(*nodes):
            self.assertNotIn("check:", ended.err)
        checks = self.checks(folder)
        self.assertEqual([(one["nodes"], one["findings"]) for one in checks], [(2, [])] * 2)
        for one in checks:
            self.assertLess(one["seconds"], CHECK_WITHIN)
            metrics = {each["metric"] for each in one["summary"]}
            self.assertLessEqual({"clock_offset", "latency", "bandwidth"}, metrics)
            self.assertEqual(one["unmeasured"], [])

    def test_a_node_with_fewer_cpus_is_named_with_the_median(self):
        cpus = len(os.sched_getaffinity(0))
        if cpus < 2:
            self.skipTest("needs two CPUs")
        job = self.cluster("2", conf=NEVER, options=["--check"])
        first, = job.start_all(1)
        second = job.start(2, popen={"prefix": ("taskset", "-c", "0")})
        job.round(2)
        ended, _ = job.finish(first, second)
        self.assertRegex(ended.err, rf"check: node .* \(1\): usable CPUs 1, the median is {cpus}")

    def test_bad_nodes_leave_if_required(self):
        job = self.cluster("2:3", conf=NEVER, options=["--check=require"])
        first, second = job.start_all(2)
        bad = job.start(3, popen={"prefix": after("ulimit -Sn 200")})
        ended, = job.ends(bad, code=69)
        self.assertIn("this node failed --check=require: limit of open files 200", ended.err)
        one = job.round(2)
        self.assertEqual((sorted(one.nodes), one.restarts), (["n1", "n2"], 0))
        ended, _ = job.finish(first, second)
        self.assertEqual(ended.err.count("limit of open files"), 1)
        self.assertIn("the node leaves the job (--check=require)", ended.err)

    def test_a_node_that_returns_is_checked(self):
        folder, options = self.logs()
        job = self.cluster("1:2", options=["--check", *options])
        first, second = job.start_all(2)
        job.round(2)
        second.kill_agent()
        job.round(1)
        back = job.start(2, popen={"prefix": after("ulimit -Sn 200")})
        job.round(2)
        first.wait_for_text("limit of open files 200")
        job.finish(first, back)
        self.assertEqual(len(self.checks(folder)), 4)


if __name__ == "__main__":
    unittest.main()
