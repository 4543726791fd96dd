# SPDX-License-Identifier: Apache-2.0
"""musterctl stacks and flights: what a verdict would contain, on demand. Tests hanging programs
(kinds.py), with the flight recorders of muster's library and of PyTorch."""
import json
import os
import shutil
import subprocess
import time
import unittest

from test_hangs import HERE, MUSTER, TORCH, FolderCase, environment, missing
import kinds

CTL = os.environ["MUSTERCTL"]
FIXTURES = HERE.parent / "fixtures" / "flights"
DEADLINE = 60


def ctl(*words):
    done = subprocess.run([CTL, *map(str, words)], capture_output=True, text=True, timeout=DEADLINE,
                          env=environment(""))
    assert done.returncode in (0, 1), done
    return done.stdout


class Running(FolderCase):
    def start(self, name, *options):
        kind = kinds.KINDS[name]
        if missing(kind):
            self.skipTest(missing(kind))
        self.logs = self.folder / "logs"
        self.job = job = subprocess.Popen(
            [MUSTER, f"--nproc-per-node={kind.ranks}", f"--log-dir={self.logs}",
             "--shutdown-timeout=1", *options, str(HERE / "kinds.py"), name],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            env=environment(str(self.folder), TORCH if kind.torch else ""))
        self.addCleanup(job.wait)
        self.addCleanup(job.terminate)
        return ["--pid", job.pid]

    def until(self, command, job, *texts, words=()):
        """Asks repeatedly while the program has not yet reached the place where it hangs."""
        deadline = time.monotonic() + DEADLINE
        while True:
            said = ctl(command, *words, *job)
            if all(text in said for text in texts):
                return said
            self.assertLess(time.monotonic(), deadline, f"no {texts} in:\n{said}")


class Stacks(Running):
    def test_equal_ones_together_and_the_odd_one_first(self):
        job = self.start("sleep")
        said = self.until("stacks", job, "\n    ", "rank 1: sleeping in sleep (kinds.py:",
                          "ranks 0, 2: ", "awaiting rank 1")
        self.assertTrue(said.startswith("rank 1: "), said)
        self.assertEqual(len([line for line in said.splitlines() if line[0] != " "]), 2, said)
        self.assertEqual(ctl("stacks", 1, *job).count("sleeping in sleep"), 1)
        self.assertNotIn("ranks 0", ctl("stacks", 1, *job))

    def test_for_programs(self):
        job = self.start("sleep")
        self.until("stacks", job, "rank 1: sleeping in sleep")
        said = json.loads(ctl("stacks", "--json", *job))
        self.assertEqual((said["v"], said["gaps"]), (1, []))
        self.assertEqual(said["groups"][0]["ranks"], [1])
        self.assertEqual([rank["rank"] for rank in said["evidence"]], [0, 1, 2])
        stacks = said["evidence"][1]["processes"][0]["stacks"]
        self.assertEqual(stacks[0]["frames"][0]["function"], "sleep")

    def test_a_thread_that_runs_is_no_news(self):
        self.until("stacks", self.start("muster_spin"), "rank 1: runs in muster_spin")


class Flights(Running):
    def test_of_the_collective_library(self):
        job = self.start("sleep")
        self.until("flights", job, "world, epoch 0: 3 of 3 ranks seen\n",
                   "rank 1: last completed #", "rank 1 is behind: ranks 0, 2 wait for it\n")
        self.assertTrue(ctl("stacks", *job))  # the job is unaffected

    def test_of_pytorch(self):
        job = self.start("gloo_skipped", "--hang-timeout=1000")
        said = self.until("flights", job, "default_pg (gloo): 3 ranks seen",
                          "ranks 0, 2: in #16 barrier, after #15 broadcast f32[4]",
                          "rank 1: skipped a collective: its operation #16 is all_reduce f32[4]")
        self.assertNotIn("behind", said)
        group, = json.loads(ctl("flights", "--json", *job))["groups"]
        self.assertEqual(group["group"], "default_pg (gloo)")
        pending = [[one["what"] for one in rank["pending"]] for rank in group["ranks"]]
        self.assertEqual(pending, [["barrier"], ["all_reduce f32[4]"], ["barrier"]])
        attempt, = self.logs.glob("*/attempt_0")
        self.assertEqual(len(list(attempt.glob("torch_flights_*.pipe"))), 3)
        self.job.terminate()
        self.job.wait(DEADLINE)
        self.assertEqual(sorted(path.name for path in attempt.iterdir()), ["0", "1", "2"])

    def test_dumps_in_a_folder(self):
        for rank in (0, 1):
            shutil.copy(FIXTURES / f"nccl-{rank}.pickle", self.folder / f"nccl_trace_rank_{rank}")
        (self.folder / "notes_7").write_text("no dump")
        (self.folder / "broken_8").write_bytes(b"\x80\x02cos\nsystem\n")
        said = ctl("flights", self.folder)
        self.assertIn("default_pg (nccl): 2 of 2 ranks seen\n", said)
        self.assertIn("rank 1 is behind: rank 0 waits for it\n", said)
        self.assertIn("broken_8: unexpected data at byte 2", said)
        self.assertNotIn("notes", said)


if __name__ == "__main__":
    unittest.main()
