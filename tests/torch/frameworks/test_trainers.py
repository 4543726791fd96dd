# SPDX-License-Identifier: Apache-2.0
"""Accelerate, transformers' Trainer, Lightning's Trainer and DeepSpeed, unmodified: on one node, on
two, and with --warm they compute the same numbers as with PyTorch's own launcher. They also do over
the backend "muster", by its name and in place of gloo."""
import os
import sys
import unittest

from support import COLD, DEADLINE, MUSTER, ROOT, Case, free_port, lines, program


class Trainers(Case):
    maxDiff = None

    def compare(self, name, pattern, words=(), nodes_words=None):
        """Runs the program four times with two ranks. Returns the common output."""
        path = program(name)
        cold, cold_err = self.muster("--nproc-per-node=2", path, *words)
        warm, warm_err = self.muster("--warm", "--nproc-per-node=2", path, *words)
        self.assertNotIn(COLD, warm_err)
        self.assertEqual(sorted(self.kept(warm)), sorted(self.kept(cold)))
        self.assertEqual(sorted(self.kept(warm_err)), sorted(self.kept(cold_err)))
        found = lines(cold, pattern)
        nodes = self.two_nodes("--nproc-per-node=1", path, *(nodes_words or words))
        self.assertEqual(lines(nodes, pattern), found)
        with self.subTest("PyTorch's own launcher"):
            theirs = self.torchrun("--nproc-per-node=2", path, *words)
            self.assertEqual(lines(theirs, pattern), found)
        return found

    def torchrun(self, *words):
        return self.end(self.start(sys.executable, "-m", "torch.distributed.run", *words))[0]

    @staticmethod
    def kept(text):
        """Without lines that differ between runs: run times, and DeepSpeed's line about its
        accelerator."""
        return [line for line in text.splitlines()
                if "train_runtime" not in line and "real_accelerator" not in line]

    def compare_backends(self, name, pattern, words=()):
        path = program(name)
        over_gloo, _ = self.muster("--nproc-per-node=2", path, *words)
        named, _ = self.muster("--nproc-per-node=2", path, *words, "muster")
        replaced, _ = self.muster("--nproc-per-node=2", path, *words, MUSTER_TORCH_REPLACES="gloo")
        found = lines(over_gloo, pattern)
        self.assertEqual(lines(named, pattern), found)
        self.assertEqual(lines(replaced, pattern), found)
        self.assertGreater(len(found), 1)
        return found

    def test_over_muster(self):
        for name, pattern, words in (("with_accelerate.py", "(epoch|world) ", ()),
                                     ("with_transformers.py", "(rank|losses) ", (self.folder,)),
                                     ("with_lightning.py", "rank ", (1, 2))):
            with self.subTest(name):
                self.compare_backends(name, pattern, words)

    def test_transformers_saves_before_a_preemption(self):
        """With the callback from the documentation."""
        path = program("with_preemption.py")
        with open(path, encoding="utf-8") as file:
            callback = file.read().partition("\nclass Save")[2].partition("\n\n\n")[0]
        with open(os.path.join(ROOT, "docs/preemption.md"), encoding="utf-8") as page:
            self.assertIn(f"```python\nclass Save{callback}\n```", page.read())
        folder, notice = os.path.join(self.folder, "out"), os.path.join(self.folder, "notice")
        job = self.start(MUSTER, "--nproc-per-node=2", "--preempt-file", notice, path, folder,
                         notice)
        _, err = job.communicate(timeout=DEADLINE)
        self.assertEqual(job.returncode, 75, err)
        saved, = os.listdir(folder)
        self.assertGreater(int(saved.partition("checkpoint-")[2]), 20)
        self.assertIn(f"all ranks saved step {saved.partition('-')[2]}\n", err)

    def test_deepspeed(self):
        for stage in (1, 3):  # of ZeRO
            with self.subTest(stage):
                found = self.compare_backends("with_deepspeed.py", "rank ", (stage,))
        two_nodes = self.two_nodes(program("with_deepspeed.py"), 3)
        self.assertEqual(lines(two_nodes, "rank "), found)

    def test_what_replaces_gloo_is_muster(self):
        job = self.start(MUSTER, "--nproc-per-node=2", program("with_accelerate.py"),
                         MUSTER_TORCH_REPLACES="gloo", MUSTER_COLLECTIVE_BACKEND="pigeons")
        _, err = job.communicate(timeout=DEADLINE)
        self.assertEqual(job.returncode, 1, err)
        self.assertIn("pigeons", err)

    def config(self, name, **more):
        """A file written by Accelerate itself."""
        from accelerate.commands.config.config_args import ClusterConfig
        path = os.path.join(self.folder, name)
        ClusterConfig(**{"compute_environment": "LOCAL_MACHINE", "distributed_type": "MULTI_CPU",
                         "mixed_precision": "bf16", "use_cpu": True, "debug": False,
                         "num_processes": 2, **more}).to_yaml_file(path)
        return path

    def test_accelerates_config_file(self):
        path = program("with_accelerate.py")
        one, _ = self.muster("--accelerate-config", self.config("one.yaml"), path)
        self.assertRegex(one, "(?m)^world 2 bf16 weights")
        port = free_port()
        nodes = [self.start(MUSTER, "--accelerate-config", self.config(
            f"{rank}.yaml", num_machines=2, machine_rank=rank, main_process_ip="127.0.0.1",
            main_process_port=port), path) for rank in (1, 0)]
        two = "".join(self.end(node)[0] for node in nodes)
        self.assertEqual(lines(two, "(epoch|world) "), lines(one, "(epoch|world) "))

    def test_accelerate(self):
        found = self.compare("with_accelerate.py", "(epoch|world) ")
        self.assertEqual(len(found), 4, found)
        self.assertRegex(found[3], "^world 2 no weights")
        first, last = (float(line.split()[-1]) for line in (found[0], found[2]))
        self.assertLess(last, first / 2)

    def test_transformers(self):
        found = self.compare("with_transformers.py", "(rank|losses) ", (self.folder,))
        self.assertEqual(len(found), 3, found)
        self.assertEqual(found[1].replace("rank 0", ""), found[2].replace("rank 1", ""))
        losses = eval(found[0].partition(" ")[2])
        self.assertLess(losses[-1], losses[0])

    def test_lightning(self):
        found = self.compare("with_lightning.py", "rank ", (1, 2), (2, 1))
        self.assertEqual(len(found), 2, found)
        for rank, line in enumerate(found):
            self.assertTrue(line.startswith(f"rank {rank} of 2 weights "), line)
        weights = [line.split()[5] for line in found]
        self.assertEqual(weights[0], weights[1])


if __name__ == "__main__":
    unittest.main(verbosity=2)
