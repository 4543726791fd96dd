# SPDX-License-Identifier: Apache-2.0
"""Requests to the launcher itself: help, version, explanations, other names."""

import os
import shutil
import subprocess

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
        for args in (["--help"], ["--version"], ["--explain", script],
                      ["--explain=plan", "--nproc-per-node", "2", script],
                      ["--explain=env", script], ["--dry-run", script],
                      ["--explain=env", *MANY, script],
                      ["--print-completion", "bash"]):
            done = subprocess.run(
                ["strace", "-f", "-o", trace, "-e", "trace=process,network", MUSTER, *args],
                env=env, capture_output=True, check=False)
            self.assertEqual(done.returncode, 0, (args, done.stderr))
            calls = [line.split("(")[0].split()[-1] for line in trace.read_text().splitlines()
                     if "(" in line]
            self.assertEqual(sorted(set(calls) - {"exit_group"}), ["execve"], (args, calls))

    def test_many_nodes_can_be_explained_before_they_meet(self):
        ended = self.run_job("--explain=plan", *MANY, "--nproc-per-node", 2, "/bin/true")
        self.assertEqual((ended.code, ended.err), (0, ""), ended)
        self.assertRegex(ended.out, "^# example for group rank 0 of 4 nodes with 2 workers each;")
        self.assertIn("\nrank 1 (local rank 1)\n", ended.out)

    def test_a_program_that_does_not_exist_can_be_explained(self):
        for question, said in (("--explain", r"program .*; the script no\.py does not exist"),
                               ("--explain=plan", r"^# cannot be started: the script no\.py does"),
                               ("--explain=env", r"^# cannot be started: the script no\.py does")):
            ended = self.run_job(question, "no.py")
            self.assertEqual((ended.code, ended.err), (0, ""), ended)
            self.assertRegex(ended.out, said)
        self.assertEqual(self.run_job("no.py").code, 127)

    def test_in_a_virtual_environment_it_runs_the_python_beside_it(self):
        bin_folder = self.folder / "venv" / "bin"
        bin_folder.mkdir(parents=True)
        (self.folder / "venv" / "pyvenv.cfg").write_text("home = /usr/bin\n")
        self.executable('#!/bin/sh\necho "beside $2"\n', "venv/bin/python3")
        for name in ("muster", "torchrun"):
            (bin_folder / name).symlink_to(MUSTER)
            script = self.python("print('of PATH')\n")
            env = {**os.environ, "PATH": f"{bin_folder}:{os.environ['PATH']}"}
            for command in (bin_folder / name, name):
                done = subprocess.run([command, script], capture_output=True, text=True, env=env,
                                      check=True)
                self.assertEqual(done.stdout, f"beside {script}\n")

    def test_a_mistyped_variable_or_key_is_one_warning(self):
        ended = self.run_job("--rdzv-conf", "lst_call_timeout=3", "/bin/true",
                             env={**os.environ, "PET_NNODE": "2"}, code=0)
        self.assertEqual(ended.err.splitlines(), [
            "muster: warning: ignoring unknown variable PET_NNODE; did you mean PET_NNODES?",
            "muster: warning: ignoring unknown key lst_call_timeout in --rdzv-conf; did you mean "
            "last_call_timeout?"])

    def test_a_command_line_of_many_nodes_that_cannot_meet_is_refused_at_once(self):
        for args, said in ((["--nnodes=2", "--rdzv-backend=c10d"], "needs --rdzv-endpoint="),
                            (["--nnodes=2"], "needs a rendezvous"),
                            (["--nnodes=2", "--master-addr=::1"], "needs --node-rank on every"),
                            (["--nnodes=2", "--standalone"], "starts a single-node job"),
                            ([*MANY, "--iface=none0"], "127.0.0.1")):
            ended = self.run_job(*args, "/bin/true")
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

    def test_shell_code_with_dollars_runs_as_typed_and_as_torchrun_by_its_rules(self):
        code = "echo $$ is not $PPID; kill -9 $$"
        ended = self.run_job("--no-python", "sh", "-c", code, code=128 + 9)
        self.assertRegex(ended.out, r"^\d+ is not \d+\n$")
        name = self.folder / "torchrun"
        name.symlink_to(MUSTER)
        done = subprocess.run([name, "--no-python", "sh", "-c", 'echo "$$(id -u) $local_rank"'],
                              capture_output=True, text=True, check=True)
        self.assertEqual(done.stdout, f"{os.getuid()} 0\n")
        args = ["--no-python", "sh", "-c", 'echo "${local_rank} $local_rank"']
        done = subprocess.run([MUSTER, *args], capture_output=True, text=True, check=True)
        self.assertEqual(done.stdout, "0 \n")

    def test_it_works_without_standard_streams_and_without_an_environment(self):
        done = subprocess.run(f"'{MUSTER}' /bin/true <&- >&- 2>&-", shell=True, check=False)
        self.assertEqual(done.returncode, 0)
        done = subprocess.run([MUSTER, "/bin/true"], env={}, check=False)
        self.assertEqual(done.returncode, 0)

    def test_at_level_info_it_says_what_happens(self):
        ended = self.run_job("--log-level", "info", "--nproc-per-node", 2, "/bin/true", code=0)
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
