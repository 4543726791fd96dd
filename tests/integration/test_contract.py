# SPDX-License-Identifier: Apache-2.0
"""PyTorch's own tests of its launcher, under their original names, unless another test of ours
covers the same; and a check that the list of all of them (tests/CONTRACT.md) is correct."""

import os
import pathlib
import re
import unittest

from harness import JobCase
from nodes import NEVER, NodesCase

TESTS = pathlib.Path(__file__).resolve().parent.parent
TOUCH_RANK = ("import os, pathlib, sys\n"
              "pathlib.Path(sys.argv[1], os.environ['RANK']).touch()\n")
CASES = 112  # listed in torchrun's contract


class Launcher(JobCase):
    def assert_ranks(self, ended, count):
        self.assertEqual((ended.code, ended.err), (0, ""), ended)
        found = sorted(int(path.name) for path in self.folder.iterdir() if path.name.isdigit())
        self.assertEqual(found, list(range(count)))

    def script(self):
        return self.python(TOUCH_RANK), str(self.folder)

    def shell_script(self):
        path = self.executable('#!/bin/sh\ntouch "$1/$RANK"\n', "script.sh")
        return str(path), str(self.folder)

    def test_launch_user_script_python(self):
        self.assert_ranks(self.run_job("--nnodes=1", "--nproc-per-node=4", "--rdzv-backend=c10d",
                                       "--monitor-interval=1", "--start-method=spawn",
                                       *self.script()), 4)

    def test_launch_user_script_python_caffe2_bc(self):
        self.assert_ranks(self.run_job("--nnodes=1", "--nproc-per-node=4", "--node-rank=0",
                                       "--master-addr=localhost", "--master-port=0",
                                       *self.script()), 4)

    def test_launch_user_script_bash(self):
        args = ["--nproc-per-node=4", "--no-python", *self.shell_script()]
        self.assert_ranks(self.run_job(*args), 4)
        self.assertEqual(self.run_job("--module", *args).code, 2)

    def test_launch_user_script_default_nproc(self):
        self.assert_ranks(self.run_job(*self.script()), 1)

    def test_launch_with_env_vars(self):
        env = dict(os.environ, PET_NNODES="1", PET_NPROC_PER_NODE="4", PET_RDZV_ID="an-id",
                   PET_MONITOR_INTERVAL="1", PET_START_METHOD="spawn", PET_NO_PYTHON="1")
        args = self.shell_script()
        self.assertEqual(self.run_job(*args, env={**env, "PET_MODULE": "1"}).code, 2)
        self.assert_ranks(self.run_job(*args, env={**env, "PET_MODULE": "0"}), 4)

    def test_launch_standalone(self):
        jobs = [self.job("--standalone", "--nproc-per-node=4", *self.script()) for _ in range(2)]
        for job in jobs:
            self.assert_ranks(job.end(), 4)

    def test_script_gets_the_parents_environment(self):
        script = self.python("import os\nassert os.environ['TEST_SENTINEL_PARENT'] == 'FOOBAR'\n"
                             "assert int(os.environ['RANK']) < int(os.environ['WORLD_SIZE'])\n")
        self.run_job("--nproc-per-node=2", script,
                     env=dict(os.environ, TEST_SENTINEL_PARENT="FOOBAR"), code=0)

    def test_bipolar_function(self):
        ended = self.run_job(*self.by_rank(*["exit 0", "exit 1"] * 2,
                                           options=["--max-restarts", "2"]), code=1)
        self.assertIn("attempt 3 of 3", ended.err)

    def test_fail_rank_one_once(self):
        self.run_job(*self.by_rank(
            "exit 0", "test $TORCHELASTIC_RESTART_COUNT = 1 || exit 1",
            options=["--max-restarts", "3"]), code=0)

    def test_sad_function(self):
        # Both fail. One is the root cause, and its message becomes the job's.
        mine = self.folder / "error.json"
        script = self.python(
            "import json, os, sys, time\n"
            "json.dump({'message': {'message': 'rank ' + os.environ['RANK'], 'extraInfo':\n"
            "    {'py_callstack': '', 'timestamp': str(int(time.time()))}}},\n"
            "    open(os.environ['TORCHELASTIC_ERROR_FILE'], 'w'))\n"
            "sys.exit(1)\n")
        ended = self.run_job("--nproc-per-node=2", script,
                             env=dict(os.environ, TORCHELASTIC_ERROR_FILE=str(mine)), code=1)
        rank = re.search(r"rank (\d) exited with code 1", ended.err).group(1)
        self.assertIn(f'"rank {rank}"', mine.read_text())

    def test_binary_exit_138(self):
        logs = self.folder / "logs"
        self.run_job(*self.by_rank("echo stderr of 0 >&2; exit 138", "exec $PUPPET wait",
                                   options=["--log-dir", logs, "--redirects", "0:3"]), code=138)
        files = sorted(str(path.relative_to(path.parents[1])) for path in logs.glob("*/*/*/*"))
        self.assertEqual(files, ["0/stderr.log", "0/stdout.log"])
        err, = logs.glob("*/*/0/stderr.log")
        self.assertEqual(err.read_text(), "stderr of 0\n")


class Agents(NodesCase):
    def test_launch_elastic_multiple_agents(self):
        job = self.cluster("1:2", conf=NEVER, addresses=None)
        job.start_all(2, nproc=4)
        self.assertEqual(list(job.round(8).env), list(range(8)))
        job.finish()

    def test_double_agent_fault_tolerance(self):
        job, nodes, _ = self.form("2", 2, conf=NEVER)
        nodes[1].kill_guard()
        again = job.start(2)
        job.round(2)
        job.finish(nodes[0], again)

    def test_double_agent_elastic(self):
        job, nodes, _ = self.form("1:2", 2, conf=NEVER)
        nodes[1].kill_guard()
        job.round(1)
        job.finish(nodes[0])
        self.assertEqual(nodes[1].end().code, -9)

    def test_correct_rank_assignment_heterogeneous(self):
        job = self.cluster("3", conf=NEVER)
        for number, (role, count) in enumerate([("master", 1), ("trainer", 2), ("ps", 3)], 1):
            job.start(number, nproc=count, options=["--role", role])
        one = job.round(6)
        roles = [(env["ROLE_NAME"], env["ROLE_RANK"]) for env in one.env.values()]
        self.assertEqual(roles, [("master", "0"), ("trainer", "0"), ("trainer", "1"),
                                 ("ps", "0"), ("ps", "1"), ("ps", "2")])
        job.finish()

    def test_correct_rank_assignment_homogeneous(self):
        job = self.cluster("4", conf=NEVER)
        for number, role in enumerate(["master", "trainer", "trainer", "ps"], 1):
            job.start(number, nproc=2, options=["--role", role])
        one = job.round(8)
        self.assertEqual([env["ROLE_RANK"] for env in one.env.values()],
                         ["0", "1", "0", "1", "2", "3", "0", "1"])
        job.finish()

    def test_workers_drift_success(self):
        # One finishes long before the other: no rank waits for it at a barrier, and none fails.
        job, nodes, one = self.form("2", 2, conf=NEVER)
        job.order(one, 1, "exit 0")
        job.ends(nodes[1])
        job.order(one, 0, "exit 0")
        job.ends(nodes[0])


def defined_in(text):
    """Names of the tests in a source file: Python's functions, Catch2's titles, CMake's tests."""
    titles = re.findall(r'TEST_CASE\(\s*((?:"(?:[^"\\]|\\.)*"\s*)+)', text)
    joined = {"".join(re.findall(r'"((?:[^"\\]|\\.)*)"', title)) for title in titles}
    return (joined | set(re.findall(r"def (test_\w+)\(", text))
            | set(re.findall(r"add_test\(NAME (\S+)", text)))


class List(unittest.TestCase):
    """tests/CONTRACT.md names our test for each case, or the reason why there is none."""

    def rows(self):
        text = (TESTS / "CONTRACT.md").read_text()
        return re.findall(r"^\| (\d+) \| ([^|]+) \| ([^|]+) \|$", text, re.M)

    def test_every_case_is_there_once(self):
        self.assertEqual([int(number) for number, _, _ in self.rows()],
                         list(range(1, CASES + 1)))

    def test_every_test_that_is_named_exists(self):
        references = 0
        for number, name, ours in self.rows():
            found = re.findall(r"`([^`]+?)::([^`]+)`", ours)
            references += len(found)
            self.assertTrue(found or ours.startswith("not met: "), f"{number}: {name}")
            for file, test in found:
                with self.subTest(case=number, test=test):
                    self.assertIn(test, defined_in((TESTS / file).read_text()), file)
        self.assertGreater(references, CASES)

    def test_a_name_that_does_not_exist_would_be_seen(self):
        found = defined_in((TESTS / "integration" / "test_contract.py").read_text())
        self.assertIn("test_sad_function", found)
        self.assertNotIn("test_glad_function", found)
        self.assertIn("a: b c", defined_in('TEST_CASE(\n    "a: b "\n    "c") {'))
