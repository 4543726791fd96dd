# SPDX-License-Identifier: Apache-2.0
"""Agents that start in the environments of schedulers, without any options, must form one job. The
environments are those in tests/fixtures/platforms. Machines are loopback addresses, to which
Slurm's SLURM_NODE_ALIASES maps the captured names."""

import os
import pathlib
import random
import shutil
import socket
import subprocess
import unittest

from harness import MUSTER, eventually, free_port
from nodes import WORKER, NodesCase

FIXTURES = pathlib.Path(__file__).resolve().parents[1] / "fixtures" / "platforms"


def captured(name):
    given = (FIXTURES / f"{name}.txt").read_text().split("---\n")[0]
    lines = [line for line in given.splitlines() if "=" in line and not line.startswith("#")]
    return dict(line.split("=", 1) for line in lines)


class Platforms(NodesCase):
    def bare_job(self, options=()):
        """A job whose launchers get only these options; their environment provides the rest."""
        job = self.cluster("?")
        job.launcher_args = lambda *_, **__: [*options, WORKER]
        return job

    def slurm(self, *names, **changed):
        """The captured tasks, as tasks of a job that exists only once."""
        number = str(random.randint(10 ** 6, 10 ** 9))
        aliases = "rack0n1:127.0.0.2:rack0n1,rack0n2:127.0.0.3:rack0n2"
        return [{**captured(name), "SLURM_JOB_ID": number, "SLURM_NODE_ALIASES": aliases, **changed}
                for name in names]

    def start(self, job, environments):
        """The last one first, because the order must not matter."""
        order = reversed(list(enumerate(environments)))
        return [job.start(index, env=env) for index, env in order]

    def explained(self, env, *options):
        done = subprocess.run([MUSTER, "--explain", *options, "nothing.py"], text=True, check=True,
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                              env={**os.environ, **env})
        return {line.split()[0]: line.split()[1] for line in done.stdout.splitlines()}

    def test_a_slurm_step_of_two_nodes_is_one_job(self):
        tasks = self.slurm("slurm-step1-0", "slurm-step1-1")
        job = self.bare_job()
        self.start(job, tasks)
        one = job.round(4)
        self.assertEqual(one.nodes, ["n0", "n1"])
        self.assertEqual([env["LOCAL_RANK"] for env in one.env.values()], ["0", "1", "0", "1"])
        self.assertEqual({env["TORCHELASTIC_RUN_ID"] for env in one.env.values()},
                         {f"slurm-{tasks[0]['SLURM_JOB_ID']}.0"})
        job.finish()

    def test_a_task_for_each_worker_is_one_job(self):
        tasks = self.slurm(*(f"slurm-pergpu-{task}" for task in range(4)))
        job = self.bare_job()
        self.start(job, tasks)
        one = job.round(4)
        self.assertEqual(one.nodes, ["n0", "n1", "n2", "n3"])
        places = [[env[name] for name in ("LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK",
                                          "GROUP_WORLD_SIZE")] for env in one.env.values()]
        self.assertEqual(places, [["0", "2", "0", "2"], ["1", "2", "0", "2"],
                                  ["0", "2", "1", "2"], ["1", "2", "1", "2"]])
        job.finish()

    def test_of_the_tasks_of_one_machine_the_first_tells_of_a_failure(self):
        tasks = self.slurm(*(f"slurm-pergpu-{task}" for task in range(4)))
        job = self.bare_job()
        nodes = self.start(job, tasks)
        job.order(job.round(4), 1, "exit 5")
        ends = job.ends(*reversed(nodes), code=5)
        told = ["rank 1 exited with code 5" in ended.err for ended in ends]
        self.assertEqual(told, [True, False, True, False], [str(ended) for ended in ends])

    def test_a_port_that_a_stranger_has_is_passed_over(self):
        tasks = self.slurm("slurm-step1-0", "slurm-step1-1")
        candidates = self.explained(tasks[1])["rdzv-endpoint"].split(",")
        self.assertEqual(len(candidates), 8)
        with socket.socket() as stranger:
            stranger.bind(("0.0.0.0", int(candidates[0].rpartition(":")[2])))
            stranger.listen()
            job = self.bare_job()
            self.start(job, tasks)
            job.round(4)
            job.finish()

    def test_a_port_that_another_job_has_is_passed_over(self):
        tasks = self.slurm("slurm-step1-0", "slurm-step1-1")
        candidates = self.explained(tasks[1])["rdzv-endpoint"].split(",")
        other = self.cluster("2", endpoint=candidates[0], addresses=None)
        holder = other.start(1)
        eventually(other.is_hosted, "the other job hosts")
        job = self.bare_job()
        self.start(job, tasks)
        self.assertEqual(job.round(4).nodes, ["n0", "n1"])
        job.finish()
        # The same is an error if the user has set the endpoint.
        lost = self.cluster("2", endpoint=candidates[0], addresses=None)
        ended, = lost.ends(lost.start(2), code=2)
        self.assertIn("serves a different job", ended.err)
        self.assertEqual(other.story.events(), [], "nobody has disturbed it")
        holder.kill_all()
        holder.end()

    def test_nodes_with_one_number_say_both(self):
        three = {"SLURM_STEP_NUM_NODES": "3", "SLURM_STEP_NODELIST": "rack0n[1-3]",
                 "SLURM_STEP_TASKS_PER_NODE": "1(x3)"}
        first, second = self.slurm("slurm-step1-0", "slurm-step1-1", **three)
        job = self.bare_job()
        host, other = job.start(0, env=first), job.start(1, env=second)
        other.wait_for_text("2 of 3")
        wrong = job.start(2, env=second)
        ended, = job.ends(wrong, code=2)
        for said in (ended.err, host.wait_for_text("refused")):
            self.assertRegex(said, r"--node-rank=1 is taken by '\S+' \(\S+\), and '\S+' \(\S+\) "
                                   "requests it too")
        for node in (host, other):
            node.kill_all()
            node.end()

    def test_nodes_that_were_told_differently_say_both(self):
        first, second = self.slurm("slurm-step1-0", "slurm-step1-1")
        second.update(SLURM_STEP_NUM_NODES="3", SLURM_STEP_NODELIST="rack0n[1-3]",
                      SLURM_STEP_TASKS_PER_NODE="1(x3)")
        job = self.bare_job()
        host = job.start(0, env=first)
        wrong = job.start(1, env=second)
        ended, = job.ends(wrong, code=2)
        for said in (ended.err, host.wait_for_text("refused")):
            self.assertIn("--nnodes", said)
            self.assertIn("2:2", said)
            self.assertIn("3:3", said)
        host.kill_all()
        host.end()

    def test_workers_counted_by_the_platform(self):
        # AILines: WORLD_SIZE is the number of workers, with WORKER_PER_NODE on each machine.
        job = self.bare_job()
        common = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "WORLD_SIZE": "4",
                  "WORKER_PER_NODE": "2"}
        self.start(job, [{**common, "NODE_RANK": "0"}, {**common, "NODE_RANK": "1"}])
        one = job.round(4)
        self.assertEqual(one.nodes, ["n0", "n1"])
        self.assertEqual({env["MASTER_PORT"] for env in one.env.values()}, {common["MASTER_PORT"]})
        job.finish()

    def test_machines_counted_by_bare_variables(self):
        job = self.bare_job()
        common = {"MASTER_ADDR": socket.gethostname(), "MASTER_PORT": str(free_port()),
                  "WORLD_SIZE": "2"}
        self.start(job, [{**common, "RANK": "0"}, {**common, "RANK": "1"}])
        self.assertEqual(job.round(2).nodes, ["n0", "n1"])
        job.finish()

    def test_outside_of_a_step_it_says_what_to_type(self):
        for name in ("slurm-batch1-0", "slurm-batchN-0", "slurm-salloc"):
            ended = self.run_job("--nproc-per-node=1", WORKER, env={**os.environ, **captured(name)})
            self.assertEqual(ended.code, 2, ended)
            self.assertEqual(len(ended.err.splitlines()), 1, ended)
            self.assertIn("run: srun --nodes=2 --ntasks=2 --ntasks-per-node=1", ended.err)
            self.assertIn(f"{MUSTER} --nproc-per-node=1 {WORKER}", ended.err)

    def test_srun_runs_that_line_in_our_place(self):
        fake = self.executable("#!/bin/sh\ntrap 'exit 9' TERM\nkill -TERM $$\nexit 7\n", "srun")
        env = {**os.environ, **captured("slurm-salloc"),
               "PATH": f"{self.folder}:{os.environ['PATH']}"}
        # A signal that we block ourselves reaches srun, which exits with 9.
        self.assertEqual(self.run_job("--srun", WORKER, env=env).code, 9)
        fake.write_text("#!/bin/sh\necho \"$@\"; exit 7\n")
        ended = self.run_job("--max-restarts=2", "--srun", WORKER, "--srun", env=env, code=7)
        self.assertTrue(ended.out.endswith(f"{MUSTER} --max-restarts=2 {WORKER} --srun\n"),
                        ended)

    def test_a_node_is_explained_from_another_one(self):
        tasks = self.slurm("slurm-step1-0")
        here = self.explained(tasks[0])
        there = self.explained(tasks[0], "--as-node=1")
        self.assertEqual((here["node-rank"], there["node-rank"]), ("0", "1"))
        self.assertEqual(here["rdzv-endpoint"], there["rdzv-endpoint"])

    @unittest.skipUnless(shutil.which("mpirun.openmpi"), "needs Open MPI")
    def test_started_by_a_real_mpirun(self):
        job = self.bare_job()
        env = {**os.environ, "NODE_DIR": str(job.folder), "NODE_LABEL": "mpi",
               "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
               "OMPI_MCA_orte_tmpdir_base": str(job.folder)}  # other tests' mpirun removes theirs
        with subprocess.Popen(["mpirun.openmpi", "--oversubscribe", "-n", "3", MUSTER, WORKER],
                              env=env, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                              text=True) as mpirun:
            try:
                one = job.round(3)
                self.assertEqual([env["LOCAL_RANK"] for env in one.env.values()], ["0", "1", "2"])
                self.assertEqual({env["LOCAL_WORLD_SIZE"] for env in one.env.values()}, {"3"})
                job.story.order("all", "exit 0")
                _, said = mpirun.communicate(timeout=60)
                self.assertEqual(mpirun.returncode, 0, said)
            finally:
                mpirun.kill()
