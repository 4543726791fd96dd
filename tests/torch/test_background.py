# SPDX-License-Identifier: Apache-2.0
"""The first job without a compiled backend builds it in the background, for later jobs. The jobs
run under muster, which kills all other processes of a job when it ends."""
import glob
import os
import subprocess
import unittest

import support
import torch

WORKER = support.worker("muster_half.py")
IS_OLD = tuple(int(part) for part in torch.__version__.split(".")[:2]) < (2, 4)
BUILD_SECONDS = 600.0  # the build only uses idle CPUs
STARTED = "muster: compiling the PyTorch extension in the background, "
RUNNING = "muster: the PyTorch extension is being compiled in the background "
FAILED = "muster: could not compile the PyTorch extension; "


class Background(support.PackageCase):
    def setUp(self):
        super().setUp()
        self.environment.update(MUSTER_TORCH_BUILD="", XDG_CACHE_HOME=f"{self.folder}/cache")

    def start(self, **variables):
        command = [support.program("muster"), "--nproc-per-node=2", WORKER]
        return subprocess.Popen(
            command, env=support.clean_environment({**self.environment, **variables}), text=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def end(self, job, half):
        """The lines of muster on stderr. Both pipes have reached end of file, so no process that
        the job has left running holds them."""
        out, err = job.communicate(timeout=support.DEADLINE)
        self.assertEqual(job.returncode, 0, out + err)
        self.assertEqual(sorted(out.splitlines()), [f"rank 0: {half}", f"rank 1: {half}"], err)
        return [line for line in err.splitlines() if "muster" in line]

    def run_job(self, half="python", **variables):
        return self.end(self.start(**variables), half)

    def files(self, name):
        return glob.glob(f"{self.folder}/cache/muster/torch-backend/*/{name}")

    def wait_for_build(self):
        """Waits until no process holds the lock, and returns the log."""
        lock, = self.files("lock")
        subprocess.run(["flock", lock, "true"], check=True, timeout=BUILD_SECONDS)
        with open(self.files("build.log")[0]) as file:
            return file.read()

    def compiler(self, text):
        """A compiler that counts its calls and then runs these lines, instead of compiling."""
        path = f"{self.folder}/c++"
        with open(path, "w") as file:
            file.write('#!/bin/sh\ncase "$*" in *-MMD*) ;; *) exec c++ "$@" ;; esac\n'
                       f"echo call >> {self.folder}/calls\n{text}\n")
        os.chmod(path, 0o755)
        return {"CXX": path}

    def calls(self):
        with open(f"{self.folder}/calls") as file:
            return len(file.readlines())


@unittest.skipIf(IS_OLD, "the compiled backend needs PyTorch 2.4")
class Current(Background):
    def test_two_jobs_build_it_once_and_later_jobs_use_it(self):
        jobs = [self.start(), self.start()]
        lines = sorted(line for job in jobs for line in self.end(job, "python"))
        self.assertEqual(len(lines), 2, lines)
        self.assertTrue(lines[0].startswith(STARTED), lines)
        self.assertTrue(lines[1].startswith(RUNNING), lines)
        log = self.wait_for_build()
        self.assertEqual(log.count("c++ -MMD"), 1, log)
        self.assertEqual(len(self.files("*.so")), 1, log)
        self.assertEqual(self.files("work-*"), [])
        self.assertEqual(self.run_job("compiled"), [])
        # The wheel muster-launch-torch contains the same folder.
        os.rename(os.path.dirname(os.path.dirname(self.files("*.so")[0])),
                  f"{self.folder}/muster_launch_torch")
        self.environment["PYTHONPATH"] += f":{self.folder}"
        self.assertEqual(self.run_job("compiled"), [])
        self.assertEqual(self.files("lock"), [])

    def test_a_failed_build_is_reported_once_and_not_tried_again(self):
        broken = self.compiler("echo no space for this >&2; exit 1")
        lines = self.run_job(**broken)
        self.assertEqual(len(lines), 1, lines)
        self.assertTrue(lines[0].startswith(STARTED), lines)
        self.assertIn("no space for this", self.wait_for_build())
        calls = self.calls()
        lines = self.run_job(**broken)
        self.assertEqual(len(lines), 1, lines)
        self.assertTrue(lines[0].startswith(FAILED), lines)
        self.assertIn(self.files("build.log")[0], lines[0])
        self.assertEqual(self.run_job(**broken), [])
        self.assertEqual(self.calls(), calls)
        self.assertEqual(self.files("*.so"), [])

    def test_a_build_that_was_killed_starts_again(self):
        waits = self.compiler(f"echo $$ > {self.folder}/pid; exec sleep 1000")
        self.assertEqual(len(self.run_job(**waits)), 1)
        support.wait_until(lambda: os.path.exists(f"{self.folder}/pid"), "the compiler runs")
        self.kill_tree()
        lines = self.run_job(**waits)
        self.assertEqual(len(lines), 1, lines)
        self.assertTrue(lines[0].startswith(STARTED), lines)
        self.kill_tree()

    def kill_tree(self):
        """Kills the processes of the build."""
        mark = f"XDG_CACHE_HOME={self.folder}/cache".encode()
        for path in glob.glob("/proc/[0-9]*/environ"):
            try:
                with open(path, "rb") as file:
                    if mark in file.read().split(b"\0"):
                        os.kill(int(path.split("/")[2]), 9)
            except OSError:
                pass
        self.wait_for_build()

    def test_it_runs_at_the_lowest_priority(self):
        shows = self.compiler(
            f"(nice; ps -o cls= -p $$; cat /proc/$$/oom_score_adj) > {self.folder}/ps; exit 1")
        self.run_job(**shows)
        self.wait_for_build()
        with open(f"{self.folder}/ps") as file:
            self.assertEqual(file.read().split(), ["19", "IDL", "1000"])

    def test_no_attempt_without_a_compiler_or_a_writable_cache_or_if_disabled(self):
        self.assertEqual(self.run_job(CXX="/nowhere/c++"), [])
        self.assertEqual(self.run_job(XDG_CACHE_HOME="/proc/no-folder"), [])
        self.assertEqual(self.run_job(MUSTER_TORCH_BUILD="never"), [])
        self.assertEqual(self.run_job(MUSTER_TORCH_BACKEND="python"), [])
        self.assertFalse(os.path.exists(f"{self.folder}/cache"))


@unittest.skipIf(not IS_OLD, "this PyTorch has a compiled backend")
class Old(Background):
    def test_nothing_is_built(self):
        self.assertEqual(self.run_job(), [])
        self.assertFalse(os.path.exists(f"{self.folder}/cache"))


if __name__ == "__main__":
    unittest.main(verbosity=2)
