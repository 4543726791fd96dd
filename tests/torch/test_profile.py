# SPDX-License-Identifier: Apache-2.0
"""musterctl profile: PyTorch's own profiler (Kineto) records the ranks of a running job, because
the launcher answers it like dynolog."""
import collections
import glob
import json
import os
import socket
import subprocess
import sys
import unittest

import support
from support import eventually, worker

DEADLINE = 120


class Case(support.TorchCase):
    def start(self, *command, daemon=True, **variables):
        """A job of two ranks that take steps."""
        self.scratch = os.path.join(self.folder, "scratch")
        os.makedirs(self.scratch, exist_ok=True)
        self.err_path = os.path.join(self.folder, "err")
        environment = {**os.environ, **self.environment, "SCRATCH": self.scratch,
                       "KINETO_LOG_LEVEL": "2", **variables}
        if daemon:
            environment["KINETO_USE_DAEMON"] = "1"
        with open(self.err_path, "wb") as err:
            job = subprocess.Popen(
                [support.program("muster"), "--nproc-per-node=2", *command,
                 worker("profiled.py")],
                env=environment,
                cwd=self.folder, stdin=subprocess.DEVNULL, stdout=err, stderr=err)
        self.addCleanup(job.wait)
        self.addCleanup(job.kill)
        self.job = job
        eventually(lambda: os.path.exists(f"{self.scratch}/step1"), self.err, DEADLINE)

    def err(self):
        with open(self.err_path, encoding="utf-8", errors="replace") as file:
            return file.read()

    def finish(self):
        with open(f"{self.scratch}/finish", "wb"):
            pass
        self.assertEqual(self.job.wait(timeout=DEADLINE), 0, self.err())

    def profile(self, *options, code=0):
        done = subprocess.run([support.program("musterctl"), "profile", "--pid", str(self.job.pid),
                               "--json", *options], capture_output=True, text=True,
                              timeout=DEADLINE, cwd=self.folder)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr + self.err())
        return json.loads(done.stdout) if done.stdout else done.stderr

    def events(self, path):
        with open(os.path.join(self.folder, path), encoding="utf-8") as file:
            return json.load(file)["traceEvents"]


def names(events):
    return collections.Counter(event["name"] for event in events if event["ph"] == "X")


def span(events):
    """The times of the first and last operation, in µs."""
    times = [event["ts"] for event in events if event.get("cat") == "cpu_op"]
    return min(times), max(times)


def processes(events):
    return {event["args"]["name"]: event["pid"] for event in events
            if event["ph"] == "M" and event["name"] == "process_name"}


class Profile(Case):
    def test_steps(self):
        self.start()
        out = self.profile("--steps=3", "--out=traces")
        self.assertEqual([one["file"] for one in out["traces"]],
                         ["traces/rank_0.json", "traces/rank_1.json"])
        for one in out["traces"]:
            self.assertEqual(names(self.events(one["file"]))["Optimizer.step#SGD.step"], 3)
        merged, = out["merged"]
        events = self.events(merged)
        self.assertEqual(names(events)["Optimizer.step#SGD.step"], 6)
        pids = processes(events)
        first, second = (next(pid for name, pid in pids.items() if name == f"rank {rank}: python")
                         for rank in (0, 1))
        self.assertNotEqual(first, second)
        arrows = collections.Counter(event["id"] for event in events if event["ph"] == "s")
        self.assertEqual(max(arrows.values()), 1)  # arrows of two ranks have different ids
        self.assertEqual(sorted(os.listdir(os.path.join(self.folder, "traces"))),
                         ["merged.json", "rank_0.json", "rank_1.json"])
        self.finish()

    def test_all_ranks_record_the_same_time(self):
        self.start()
        out = self.profile("--seconds=1")
        spans = [span(self.events(one["file"])) for one in out["traces"]]
        self.assertGreater(min(last for _, last in spans), max(first for first, _ in spans))
        folder = os.path.dirname(out["merged"][0])
        self.assertRegex(folder, r"^muster_profile_\d{4}(-\d\d){2}_\d\d(-\d\d){2}$")
        self.finish()

    def test_one_rank_that_a_script_starts(self):
        self.start("--no-python", "sh", "-c", f'{sys.executable} "$0"')
        out = self.profile("1", "--steps=1")
        one, = out["traces"]
        self.assertEqual((one["rank"], out["merged"]), (1, []))
        self.assertEqual(names(self.events(one["file"]))["Optimizer.step#SGD.step"], 1)
        self.finish()

    def test_a_program_without_an_optimizer_is_recorded_for_half_a_second(self):
        self.start(WITHOUT_STEPS="1")
        out = self.profile("0", "--steps=1")
        first, last = span(self.events(out["traces"][0]["file"]))
        self.assertLess(last - first, 10e6)
        self.finish()

    def test_a_rank_that_ends_before_its_trace(self):
        self.start()
        command = [support.program("musterctl"), "profile", "--pid", str(self.job.pid),
                   "--seconds=60"]
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True,
                              cwd=self.folder) as profile:
            self.assertIn("waiting for the traces", profile.stderr.readline())
            self.job.terminate()  # PyTorch may crash if a program ends while it is recorded
            err = profile.communicate(timeout=DEADLINE)[1]
        self.assertEqual(profile.returncode, 1)
        self.assertIn("rank 0: the process exited before it wrote a trace", err)
        self.assertIn("rank 1: the process exited before it wrote a trace", err)

    def test_nothing_is_left_and_strangers_have_no_effect(self):
        self.start()
        folder, = glob.glob(f"{self.folder}/muster-kineto-*")
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as stranger:
            stranger.connect(f"{folder}/dynolog")
            for datagram in (b"", b"x" * 40, b"\xff" * 65536, bytes(40)):
                stranger.send(datagram)
        out = self.profile("0", "--steps=1")
        self.assertIn("file", out["traces"][0])
        self.finish()
        self.assertEqual(glob.glob(f"{self.folder}/muster-kineto-*"), [])
        self.assertNotIn("sync_send fail", self.err())  # as Kineto prints without a daemon

    def test_without_the_variable_py_spy_would_have_to_count_steps(self):
        self.start(daemon=False)
        out = self.profile("0", "--steps=1", code=1)
        self.assertRegex(out["traces"][0]["error"],
                         "KINETO_USE_DAEMON=1 .*, and py-spy cannot count steps")
        self.finish()


if __name__ == "__main__":
    unittest.main(verbosity=2)
