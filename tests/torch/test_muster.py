# SPDX-License-Identifier: Apache-2.0
"""The torch.distributed backend "muster" with the PyTorch of the interpreter that runs this file:
under muster, under torchrun, and in processes started by hand."""
import os
import re
import socket
import subprocess
import sys
import threading
import unittest

import support
import torch
from support import worker

IS_OLD = int(torch.__version__.split(".")[0]) < 2
IS_PYTHON = support.half()["MUSTER_TORCH_BACKEND"] == "python"


class MusterTest(support.PackageCase):
    def setUp(self):
        super().setUp()
        self.environment.update(support.half())

    def by_hand(self, ranks, *words):
        """Without a launcher: rank 0's PyTorch serves the store. Returns the output of each
        rank."""
        with socket.socket() as held:  # rank 0 sets the same option; no other process gets the port
            held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            held.bind(("127.0.0.1", 0))
            port = held.getsockname()[1]
            started = []
            for rank in range(ranks):
                # One thread each, as launchers set it. OpenMP threads spin, so with more of them
                # than CPUs each step takes whole time slices.
                place = {"RANK": str(rank), "WORLD_SIZE": str(ranks), "MASTER_ADDR": "127.0.0.1",
                         "MASTER_PORT": str(port), "OMP_NUM_THREADS": "1"}
                process = subprocess.Popen(
                    [sys.executable, *words], text=True, stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    env=support.clean_environment({**self.environment, **place}))
                self.addCleanup(process.kill)
                started.append(process)
            return [process.communicate(timeout=support.DEADLINE)[0] for process in started]


class Collectives(MusterTest):
    def assert_all_done(self, output, ranks):
        self.assertEqual(sorted(re.findall(r"rank \d of \d is done", output)),
                         [f"rank {rank} of {ranks} is done" for rank in range(ranks)], output)

    def test_as_the_default_group_under_muster(self):
        for ranks in (2, 4):
            with self.subTest(ranks=ranks):
                done = self.launch(ranks, worker("muster_collectives.py"))
                self.assert_all_done(self.succeeded(done), ranks)

    def test_as_a_group_beside_gloo(self):
        done = self.launch(3, worker("muster_collectives.py"), "new_group")
        self.assert_all_done(self.succeeded(done), 3)

    def test_what_gloo_gives_in_the_same_processes(self):
        output = self.succeeded(self.launch(3, worker("muster_beside_gloo.py")))
        self.assert_all_done(output, 3)
        self.assertEqual(len(re.findall(r"gloo gave \d+ of \d+", output)), 3)

    @unittest.skipIf(IS_OLD, "torchrun of PyTorch 1.13 does not run on Python 3.11")
    def test_under_torchrun(self):
        done = support.run(support.torchrun("--nproc_per_node=2", worker("muster_collectives.py")),
                           env=self.environment)
        self.assert_all_done(self.succeeded(done), 2)

    @unittest.skipIf(IS_OLD, "PyTorch 1.13 has no meshes of processes")
    def test_what_pytorch_builds_on_groups(self):
        self.assert_all_done(self.succeeded(self.launch(2, worker("muster_mesh.py"))), 2)

    def test_started_by_hand(self):
        self.assert_all_done("".join(self.by_hand(2, worker("muster_collectives.py"))), 2)


class WithoutGroup(MusterTest):
    def test_tensors_of_every_type_and_uneven_sizes(self):
        for ranks in (2, 3):
            with self.subTest(ranks=ranks):
                output = self.succeeded(self.launch(ranks, worker("muster_tensors.py")))
                self.assertEqual(output.count("all tensors as they should be"), ranks, output)


@unittest.skipIf(IS_PYTHON, "asked of the compiled back end")
class Compiled(MusterTest):
    def test_buckets_of_ddp_are_memory_of_the_library(self):
        output = self.succeeded(self.launch(2, worker("muster_buckets.py")))
        self.assertEqual(output.count("the buckets are the library's"), 2, output)

    def test_a_group_has_other_back_ends_for_other_devices(self):
        output = self.succeeded(self.launch(2, worker("muster_devices.py")))
        self.assertEqual(output.count("cpu muster, cuda gloo"), 4, output)

    def test_what_another_rank_waits_for_may_follow_an_asynchronous_operation(self):
        for word in ("inline", "thread"):
            with self.subTest(word=word):
                self.environment["MUSTER_TORCH_ASYNC"] = word
                output = self.succeeded(self.launch(2, worker("muster_crossed.py")))
                self.assertEqual(output.count("all are over"), 2, output)


class Ddp(MusterTest):
    def test_gradients_are_those_of_gloo(self):
        for ranks in (2, 4):
            with self.subTest(ranks=ranks):
                output = self.succeeded(self.launch(ranks, worker("muster_ddp.py")))
                self.assertEqual(output.count("the gradients are those of gloo"), ranks, output)

    def test_the_example_learns_what_it_learns_with_gloo(self):
        def figures(*words):
            output = self.succeeded(self.launch(
                2, os.path.join(support.EXAMPLES, "digits_ddp.py"), "--epochs=2", *words))
            return [[float(number) for number in row] for row in
                    re.findall(r"loss (\d+\.\d+), test accuracy (\d+\.\d)%", output)]
        gloo, ours = figures(), figures("--backend=muster")
        self.assertEqual(len(ours), 2)
        for (loss, accuracy), (our_loss, our_accuracy) in zip(gloo, ours):
            self.assertAlmostEqual(our_loss, loss, delta=0.002)
            self.assertAlmostEqual(our_accuracy, accuracy, delta=0.6)  # two of 359 images


class Deaths(MusterTest):
    def test_a_killed_rank_is_named_on_all_others(self):
        outputs = self.by_hand(3, worker("muster_dies.py"), "collective")
        self.assertEqual(outputs[1], "")
        for rank in (0, 2):
            self.assertRegex(outputs[rank], r"^PeerFailed rank 1: .*rank 1 ", outputs)

    def test_also_where_pytorch_waits(self):
        outputs = self.by_hand(3, worker("muster_dies.py"), "ddp")
        self.assertEqual(outputs[1], "")
        for rank in (0, 2):
            self.assertRegex(outputs[rank], r"^\w+: .*rank 1 .*died", outputs)

    def test_also_where_a_message_has_a_tag(self):
        outputs = self.by_hand(3, worker("muster_dies.py"), "tagged")
        self.assertEqual(outputs[1], "")
        for rank in (0, 2):
            self.assertRegex(outputs[rank], r"^PeerFailed rank 1: .*tag 3.*rank 1 .*died")

    def test_ranks_that_call_different_things_are_told_both(self):
        for output in self.by_hand(3, worker("muster_dies.py"), "mismatch"):
            lines = output.splitlines()
            self.assertEqual(len(lines), 2, output)
            self.assertRegex(lines[0], r"^Mismatch rank \d: .*f32\[[34]\].*f32\[[34]\]")
            self.assertRegex(lines[0], r"rank 1 ")
            self.assertRegex(lines[1], r"^Mismatch rank \d: ")

    def test_a_rank_that_does_not_come_in_time_is_named(self):
        for output in self.by_hand(3, worker("muster_dies.py"), "late"):
            self.assertRegex(output, r"^TimedOut rank 1: .*rank 1 is missing")


class Stragglers(MusterTest):
    def test_a_slow_rank_of_ddp_is_named(self):
        """DDP waits for futures, which another thread completes."""
        command = [support.program("muster"), "--nproc-per-node=3", worker("muster_slow_ddp.py")]
        environment = support.clean_environment({**self.environment, "SLOW_RANK": "1"})
        with subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, text=True,
                              stderr=subprocess.PIPE) as job:
            timer = threading.Timer(support.DEADLINE, job.kill)
            timer.start()
            said = []
            for line in job.stderr:
                said.append(line)
                if " slow: " in line:
                    job.terminate()
            timer.cancel()
        self.assertRegex("".join(said), r"rank 1 is slow: it costs the job \d+ % of its time")


if __name__ == "__main__":
    unittest.main(verbosity=2)
