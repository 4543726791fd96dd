# SPDX-License-Identifier: Apache-2.0
"""muster as started by real Slurm: without any options it must form one job on the step's hosts,
and never one job per host."""

import os
import random
import re
import shutil
import subprocess
import unittest

from harness import MUSTER, read
from mpi_program import COMPILERS, compiled, environment
from slurm import SlurmCase, line_to_type

COLLECTIVE = os.environ["MUSTER_COLLECTIVE_PUPPET"]
DEBIANS_PYTHON = "/usr/bin/python3"  # the version for which python3-torch is built
TORCH = """
import os, torch, torch.distributed as dist
dist.init_process_group("gloo")
tensor = torch.full((1000,), float(dist.get_rank() + 1))
dist.all_reduce(tensor)
print("sum", tensor.unique().tolist(), "of", dist.get_world_size(), flush=True)
dist.destroy_process_group()
"""


def some_ranges(dice):
    """Expands one bracket: "03-05,7"; ascending, so that no name occurs twice."""
    width, at, out = dice.randint(1, 3), dice.randint(0, 12), []
    for _ in range(dice.randint(1, 3)):
        end = at + dice.randint(0, 3)
        out.append(f"{at:0{width}}" if end == at else f"{at:0{width}}-{end}")
        at = end + dice.randint(1, 5)
    return ",".join(out)


def some_list(dice):
    entries = []
    for letter in "abcd"[:dice.randint(1, 4)]:
        groups = [f"{text}[{some_ranges(dice)}]" for text in ("", "n", "-x")[:dice.randint(0, 3)]]
        entries.append(letter + "".join(groups))
    return ",".join(entries)


def has_torch():
    return shutil.which(DEBIANS_PYTHON) and subprocess.run(
        [DEBIANS_PYTHON, "-c", "import torch.distributed"], capture_output=True,
        check=False).returncode == 0


TWO_OF_EACH = [("pod-a01", "0", "2"), ("pod-a01", "1", "2"), ("pod-a02", "0", "2"),
               ("pod-a02", "1", "2")]


class Steps(SlurmCase):
    def test_srun_of_four_hosts(self):
        job, _ = self.srun("-N4")
        one = job.round(4)
        self.assertEqual(self.places(one), [(name, "0", "1") for name in
                                            ("pod-a01", "pod-a02", "pod-b01", "pod-b02")])
        self.assertEqual(self.run_ids(one), {f"slurm-{self.number()}.0"})
        # The first host leads, at an address that the others can reach.
        self.assertEqual({env["MASTER_ADDR"] for env in one.env.values()},
                         {self.slurm.nodes[0].address})
        job.finish()

    def test_a_worker_for_each_gpu_of_the_hosts(self):
        job, _ = self.srun("-N2", "--gres=gpu:2")
        one = job.round(4)
        self.assertEqual(self.places(one), TWO_OF_EACH)
        job.finish()

    def test_a_worker_has_a_place_of_its_own_in_the_step(self):
        job, _ = self.srun("-N2", "--gres=gpu:2")
        one = job.round(4)
        for name, of_ours in (("SLURM_PROCID", "RANK"), ("SLURM_NTASKS", "WORLD_SIZE"),
                              ("SLURM_NPROCS", "WORLD_SIZE"), ("SLURM_LOCALID", "LOCAL_RANK")):
            self.assertEqual([env.get(name) for env in one.env.values()],
                             [env[of_ours] for env in one.env.values()], name)
        job.finish()

    def test_a_task_for_each_gpu(self):
        # Slurm lets each task see one GPU, whose index is 0 whatever the local rank.
        job, _ = self.srun("-N2", "--ntasks-per-node=2", "--gpus-per-task=1")
        one = job.round(4)
        self.assertEqual(self.places(one), [("pod-a01", "0", "2"), ("pod-a01", "0", "2"),
                                            ("pod-a02", "0", "2"), ("pod-a02", "0", "2")])
        job.finish()

    def test_a_task_for_each_worker(self):
        job, _ = self.srun("-N2", "--ntasks-per-node=2")
        one = job.round(4)
        self.assertEqual(self.places(one), TWO_OF_EACH)
        job.finish()

    def test_unequal_numbers_of_tasks(self):
        for options in ([], ["--distribution=cyclic"]):
            self.slurm.idle()  # otherwise Slurm takes hosts that are already free
            job, _ = self.srun("-N3", "-n5", *options)
            one = job.round(5)
            self.assertEqual(self.places(one), [*TWO_OF_EACH, ("pod-b01", "0", "1")])
            job.finish()

    def test_a_batch_script(self):
        job, _ = self.sbatch('srun "$@"', "-N3", "--ntasks-per-node=1")
        one = job.round(3)
        self.assertEqual(self.run_ids(one), {f"slurm-{self.number()}.0"})
        self.assertEqual(one.nodes, ["pod-a01", "pod-a02", "pod-b01"])
        job.finish()

    def test_two_steps_side_by_side_are_two_jobs(self):
        job, _ = self.sbatch('srun -N1 -n1 -r0 "$@" & srun -N2 -n2 -r1 "$@" & wait', "-N3")
        job.may_be_two = True
        small, large = job.round(1), job.round(2, fresh=False)  # in any order
        self.assertEqual(small.nodes, ["pod-a01"])
        self.assertEqual(large.nodes, ["pod-a02", "pod-b01"])
        self.assertTrue(self.run_ids(small).isdisjoint(self.run_ids(large)))
        job.finish()

    def test_the_code_of_a_worker_is_that_of_the_job(self):
        job, _ = self.sbatch('srun "$@"', "-N2")
        job.round(2)
        job.finish(code=7)

    def test_outside_of_srun_it_says_what_to_type(self):
        for start in (lambda: self.salloc("-N2"), lambda: self.sbatch('"$@"', "-N2")):
            job, node = start()
            ended, = job.ends(node, code=2)
            said = (ended.err + read(self.folder / "batch.out")).splitlines()
            refusal, = (line for line in said if line.startswith("muster: "))
            # The suggested command is correct: typed in such a shell, it starts the job.
            line = line_to_type(refusal)
            self.assertEqual(line[-2:], [MUSTER, str(self.worker)])
            self.slurm.idle()
            job, _ = self.salloc("-N2", text=" ".join(line))
            self.assertEqual(job.round(2).nodes, ["pod-a01", "pod-a02"])
            job.finish()

    def test_lists_of_hosts_are_expanded_as_by_scontrol(self):
        seed = random.randrange(1 << 32)
        dice = random.Random(seed)
        for text in (some_list(dice) for _ in range(60)):
            with self.subTest(text, seed=seed):
                shown = subprocess.run([MUSTER, "--explain", "--hosts", text, "/bin/true"],
                                       capture_output=True, text=True, check=True).stdout
                self.assertEqual(re.findall(r"^host \d+: (.*)$", shown, re.M),
                                 self.slurm.ask("scontrol", "show", "hostnames", text).split())

    def test_srun_in_our_place(self):
        job, _ = self.salloc("-N2", options=["--srun"])
        self.assertEqual(job.round(2).nodes, ["pod-a01", "pod-a02"])
        job.finish()

    def test_more_workers_than_tasks_are_refused(self):
        job, node = self.srun("-N2", "--ntasks-per-node=2", options=["--nproc-per-node=2"])
        ended, = job.ends(node, code=2)
        self.assertIn("has already started one launcher per worker (2 here, 4 in total)", ended.err)


class Sums(SlurmCase):
    def test_the_collective_library_sums_over_the_hosts(self):
        job, node = self.srun("-N4", "--gres=gpu:2", program=[COLLECTIVE, "sums"])
        ended, = job.ends(node)
        lines = ended.out.splitlines()
        self.assertEqual(len(lines), 8, ended)
        self.assertEqual(len(set(lines)), 1, ended)
        self.assertRegex(lines[0], "^sums [0-9a-f]{16} of 8 by ")

    @unittest.skipUnless(has_torch(), "needs python3-torch: scripts/install_deps test")
    def test_pytorch_sums_over_the_hosts(self):
        script = self.python(TORCH)
        job, node = self.srun("-N4", program=[script], env={"PYTHON_EXEC": DEBIANS_PYTHON})
        ended, = job.ends(node)
        self.assertEqual(ended.out.splitlines(), ["sum [10.0] of 4"] * 4, ended)


@unittest.skipUnless(all(map(shutil.which, COMPILERS)), "needs compilers of both MPIs")
class ProgramsOfMpi(SlurmCase):
    def assert_alone(self, words, *options, env=None):
        job, node = self.srun("-N2", *options, options=["--nproc-per-node=2"], program=words,
                              env=env)
        ended, = job.ends(node)
        self.assertEqual(ended.out.splitlines(), ["MPI world of 1"] * 4, ended)

    def test_a_worker_of_mpich_is_alone(self):
        program = compiled(self.folder, "mpich")
        for served in ("none", "pmi2"):
            self.assert_alone([program], f"--mpi={served}")

    def test_a_worker_of_open_mpi_is_alone_where_it_does_not_see_slurm(self):
        words = ["env", "-u", "SLURM_NODELIST", compiled(self.folder, "openmpi")]
        self.assert_alone(["--no-python", *words],
                          env=environment(self.folder, [host.name for host in self.slurm.nodes]))
