# SPDX-License-Identifier: Apache-2.0
"""What is asked of the launcher itself: help, version, explanations, other names."""

import os
import shutil
import subprocess
import unittest

from harness import MUSTER, JobCase


MANY = ["--nnodes", "2:4", "--rdzv-backend", "c10d", "--rdzv-endpoint", "head.invalid"]


class Usage(JobCase):
    def test_help_and_version_go_to_stdout(self):
        for word in ("--help", "-h", "--version"):
            ended = self.run_job(word)
            self.assertEqual((ended.code, ended.err), (0, ""), ended)
            self.assertIn("muster", ended.out)

    def test_help_can_be_cut_short(self):
        shown = subprocess.run(f"'{MUSTER}' --help | head -1", shell=True, capture_output=True,
                               check=True)
        self.assertEqual(shown.stderr, b"")
        self.assertEqual(shown.stdout.count(b"\n"), 1)

    def test_questions_start_no_process_and_open_no_socket(self):
        if not shutil.which("strace"):
            self.skipTest("needs strace")
        script = self.python("raise SystemExit('must not run')\n")
        trace = self.folder / "trace"
        # A sanitizer's leak checker cannot work while it is traced itself.
        env = {**os.environ, "ASAN_OPTIONS": "detect_leaks=0"}
        for words in (["--help"], ["--version"], ["--explain", script],
                      ["--explain=plan", "--nproc-per-node", "2", script],
                      ["--explain=env", script], ["--dry-run", script],
                      ["--explain=env", *MANY, script],
                      ["--print-completion", "bash"]):
            done = subprocess.run(
                ["strace", "-f", "-o", trace, "-e", "trace=process,network", MUSTER, *words],
                env=env, capture_output=True, check=False)
            self.assertEqual(done.returncode, 0, (words, done.stderr))
            calls = [line.split("(")[0].split()[-1] for line in trace.read_text().splitlines()
                     if "(" in line]
            self.assertEqual(sorted(set(calls) - {"exit_group"}), ["execve"], (words, calls))

    def test_many_nodes_can_be_explained_before_they_meet(self):
        ended = self.run_job("--explain=plan", *MANY, "--nproc-per-node", 2, "/bin/true")
        self.assertEqual((ended.code, ended.err), (0, ""), ended)
        self.assertRegex(ended.out, "^# group rank 0 of 4 nodes with 2 workers each, as an example")
        self.assertIn("\nrank 1 (local rank 1)\n", ended.out)

    def test_a_command_line_of_many_nodes_that_cannot_meet_is_refused_at_once(self):
        for words, said in ((["--nnodes=2", "--rdzv-backend=c10d"], "needs --rdzv-endpoint="),
                            (["--nnodes=2"], "needs a place to meet"),
                            (["--nnodes=2", "--standalone"], "is for one machine"),
                            ([*MANY, "--iface=none0"], "127.0.0.1")):
            ended = self.run_job(*words, "/bin/true")
            self.assertEqual((ended.code, ended.out), (2, ""), ended)
            self.assertEqual(ended.err.count("\n"), 1, ended)
            self.assertIn(said, ended.err)
            self.assertLess(ended.seconds, 5.0)

    def test_under_the_name_torchrun_it_runs_scripts_and_programs(self):
        name = self.folder / "torchrun"
        name.symlink_to(MUSTER)
        script = self.python("import os, sys\nprint(os.environ['RANK'], sys.argv[1:])\n")
        done = subprocess.run([name, "--nproc_per_node=1", script, "--x"], capture_output=True,
                              check=True)
        self.assertEqual((done.stdout, done.stderr), (b"0 ['--x']\n", b""))

    def test_as_torch_distributed_launch_it_adds_the_local_rank(self):
        name = self.folder / "torch.distributed.launch"
        name.symlink_to(MUSTER)
        script = self.python("import sys\nprint(sys.argv[1:])\n")
        done = subprocess.run([name, script, "--x"], capture_output=True, check=True)
        self.assertRegex(done.stdout.decode(), r"^\['--local[-_]rank=0', '--x'\]\n$")

    def test_it_works_without_standard_streams_and_without_an_environment(self):
        done = subprocess.run(f"'{MUSTER}' /bin/true <&- >&- 2>&-", shell=True, check=False)
        self.assertEqual(done.returncode, 0)
        done = subprocess.run([MUSTER, "/bin/true"], env={}, check=False)
        self.assertEqual(done.returncode, 0)

    def test_at_level_info_it_says_what_happens(self):
        ended = self.run_job("--log-level", "info", "--nproc-per-node", 2, "/bin/true")
        self.assertEqual(ended.code, 0, ended)
        self.assertRegex(
            ended.err, r"muster: info: attempt 1: 2 workers, store on 127\.0\.0\.1:\d+")
        self.assertEqual(ended.err.count("exited with code 0"), 2, ended)

    def test_without_a_place_for_temporary_files_it_still_runs(self):
        ended = self.run_job("/bin/true", env=dict(os.environ, TMPDIR="/no/such/folder"))
        self.assertEqual((ended.code, ended.err), (0, ""), ended)

    def test_a_port_that_is_taken_is_told(self):
        import socket
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
            ended = self.run_job("--master-port", port, "/bin/true")
            self.assertNotEqual(ended.code, 0)
            self.assertIn(str(port), ended.err)
            self.assertIn("in use", ended.err.lower())


if __name__ == "__main__":
    unittest.main()
