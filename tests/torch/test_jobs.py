# SPDX-License-Identifier: Apache-2.0
"""Real PyTorch jobs under muster, with the PyTorch of the interpreter that runs this file."""
import glob
import importlib.util
import json
import os
import re
import select
import signal
import subprocess
import sys
import unittest
import uuid

import support
from cases import find_pids, kill_at_end
from support import worker

DIGITS = os.path.join(support.EXAMPLES, "digits_ddp.py")


class JobTest(support.TorchCase):
    def launch(self, *args, program="muster", **options):
        """Runs the launcher in the foreground, with this interpreter for .py files."""
        env = {**self.environment, **options.pop("env", {})}
        command = [program if "/" in program else support.program(program), *args]
        return support.run(command, env=env, **options)

    def succeed(self, *args, **options):
        done = self.launch(*args, **options)
        self.succeeded(done)
        return done

    def link(self, name):
        path = os.path.join(self.folder, name)
        os.symlink(support.program("muster"), path)
        return path


class Digits(JobTest):
    """The example on real data, launched in each of the ways that users do."""

    def assert_learned(self, done):
        losses = [float(loss) for loss in re.findall(r"loss (\d+\.\d+)", done.stdout)]
        accuracies = [float(part) for part in re.findall(r"accuracy (\d+\.\d)%", done.stdout)]
        self.assertEqual(len(losses), 12, done.stdout + done.stderr)
        self.assertLess(losses[-1], losses[0] / 5)
        self.assertGreater(accuracies[-1], 90)
        self.assertIn(", 2 workers,", done.stdout)
        self.assertNotIn("muster", done.stderr)  # success prints no message

    def test_standalone(self):
        self.assert_learned(self.succeed("--standalone", "--nproc-per-node=2", DIGITS))

    def test_no_other_flag(self):
        self.assert_learned(self.succeed("--nproc-per-node=2", DIGITS))

    def test_as_a_module(self):
        self.assert_learned(self.succeed("--nproc-per-node=2", "-m", "digits_ddp",
                                         cwd=support.EXAMPLES))

    def test_a_restart_resumes_from_the_checkpoint(self):
        checkpoint = os.path.join(self.folder, "digits.pt")
        done = self.succeed("--nproc-per-node=2", "--max-restarts=1", DIGITS,
                            "--checkpoint", checkpoint, "--crash-in-epoch", "6")
        starts = re.findall(r"first epoch: (\d+)", done.stdout)
        self.assertEqual(starts, ["1", "6"], done.stdout + done.stderr)
        epochs = re.findall(r"^epoch +(\d+):.*accuracy (\d+\.\d)%", done.stdout, re.M)
        self.assertEqual([int(epoch) for epoch, _ in epochs], list(range(1, 13)))
        self.assertGreater(float(epochs[-1][1]), 90)


class Store(JobTest):
    def test_groups_barriers_and_objects(self):
        done = self.succeed("--nproc-per-node=4", worker("groups.py"),
                            env={"TORCH_DISTRIBUTED_DEBUG": "INFO", "TORCH_DIST_INIT_BARRIER": "1"})
        self.assertEqual(sorted(re.findall(r"rank \d of 4 is done", done.stdout)),
                         [f"rank {rank} of 4 is done" for rank in range(4)])

    def test_two_jobs_at_once(self):
        command = [support.program("muster"), "--nproc-per-node=2", worker("groups.py")]
        jobs = [subprocess.Popen(command, env=support.clean_environment(self.environment),
                                 stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
                for _ in range(2)]
        for job in jobs:
            output, _ = job.communicate(timeout=support.DEADLINE)
            self.assertEqual((job.returncode, output.count("of 2 is done")), (0, 2), output)

    def test_each_attempt_has_a_fresh_store(self):
        done = self.succeed("--nproc-per-node=2", "--max-restarts=1", worker("rounds.py"))
        seen = re.findall(r"attempt (\d) rank (\d) port (\d+)", done.stdout)
        self.assertEqual(sorted((attempt, rank) for attempt, rank, _ in seen),
                         [("0", "0"), ("0", "1"), ("1", "0"), ("1", "1")])
        self.assertEqual(len({(attempt, port) for attempt, _, port in seen}), 2, seen)

    def test_rank_0_serves_the_store_where_sharing_is_off(self):
        done = self.succeed("--nproc-per-node=2", "--max-restarts=1", worker("own_store.py"),
                            env={"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"})
        seen = re.findall(r"attempt (\d) rank (\d) port (\d+)", done.stdout)
        self.assertEqual(sorted((attempt, rank) for attempt, rank, _ in seen),
                         [("0", "0"), ("0", "1"), ("1", "0"), ("1", "1")])
        self.assertEqual(len({port for _, _, port in seen}), 2, seen)


class Names(JobTest):
    """One program under the names of PyTorch's launchers."""

    def ranks_got(self, done):
        return sorted(re.findall(r"rank \d got .*", done.stdout))

    def test_a_link_named_torchrun(self):
        done = self.succeed("--nproc_per_node", "2", worker("arguments.py"), "--x", "-m",
                            program=self.link("torchrun"))
        self.assertEqual(self.ranks_got(done), ["rank 0 got --x -m", "rank 1 got --x -m"])

    def test_a_job_under_a_link_named_torchrun(self):
        done = self.succeed("--standalone", "--nproc_per_node=2", worker("groups.py"),
                            program=self.link("torchrun"))
        self.assertEqual(done.stdout.count("of 2 is done"), 2)

    def test_torch_distributed_launch_adds_the_local_rank(self):
        launch = self.link("torch.distributed.launch")
        done = self.succeed("--nproc_per_node=2", worker("arguments.py"), "--x", program=launch)
        for rank, got in enumerate(self.ranks_got(done)):
            self.assertRegex(got, rf"^rank {rank} got --local[_-]rank={rank} --x$")
        plain = self.succeed("--nproc_per_node=2", "--use_env", worker("arguments.py"), "--x",
                             program=launch)
        self.assertEqual(self.ranks_got(plain), ["rank 0 got --x", "rank 1 got --x"])


class Reports(JobTest):
    def launch_failing(self, how):
        mine = os.path.join(self.folder, "launcher-error.json")
        done = self.launch("--nproc-per-node=2", worker("fail.py"), how,
                           env={"TORCHELASTIC_ERROR_FILE": mine})
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        report = done.stderr.splitlines()[-15:]
        return mine, "\n".join(report), done.stderr

    def assert_root_cause(self, report):
        self.assertRegex(report, r"rank 1\b")
        self.assertIn("ValueError: no use for 3 numbers", report)
        self.assertIn("raise ValueError", report)

    def test_a_recorded_error_is_shown_and_passed_on(self):
        mine, report, _ = self.launch_failing("record")
        self.assert_root_cause(report)
        with open(mine) as file:
            error = json.load(file)
        self.assertEqual(error["message"]["message"], "ValueError: no use for 3 numbers")
        self.assertEqual(error["message"]["errorCode"], 1)
        self.assertIn("Traceback", error["message"]["extraInfo"]["py_callstack"])
        self.assertRegex(error["message"]["extraInfo"]["timestamp"], r"^\d+$")

    def test_a_rank_that_closes_its_group_in_finally_is_named(self):
        fifo = os.path.join(self.folder, "fifo")
        os.mkfifo(fifo)
        for turn in range(8):
            done = self.launch("--nproc-per-node=4", worker("closes_group.py"), fifo)
            self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
            report = done.stderr[done.stderr.rindex("muster: "):]
            self.assertIn("rank 2 exited with code 1", report, f"turn {turn}:\n{done.stderr}")
            self.assertIn("ValueError: bad batch 17", report)

    def test_an_undecorated_script_has_its_traceback_found(self):
        _, report, _ = self.launch_failing("plain")
        self.assert_root_cause(report)


class SharedTensors(JobTest):
    """Tensors in files in /dev/shm (the sharing strategy "file_system"). A daemon of each rank,
    PyTorch's torch_shm_manager, removes the rank's files after its death."""

    def start(self, code, *options):
        self.token = f"MUSTER_TEST_TOKEN={uuid.uuid4().hex}"
        fifo = os.path.join(self.folder, "fifo")
        if not os.path.exists(fifo):
            os.mkfifo(fifo)
        self.fifo = os.open(fifo, os.O_RDWR)
        self.addCleanup(os.close, self.fifo)
        env = dict([self.token.split("=")], **self.environment)
        return kill_at_end(self, subprocess.Popen(
            [support.program("muster"), "--nproc-per-node=2", *options,
             worker("shares_tensors.py"), fifo, str(code)], text=True,
            env=support.clean_environment(env), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE))

    def managers(self):
        found = []
        for pid in find_pids(self.token):
            try:
                found += [pid] * os.readlink(f"/proc/{pid}/exe").endswith("/torch_shm_manager")
            except OSError:
                pass  # it has exited
        return found

    def files_of_attempt(self, job):
        """Waits until both ranks share tensors. Returns a function that lists their files."""
        shown = b""
        while shown.count(b"\n") < 2:
            self.assertTrue(select.select([job.stdout], [], [], support.DEADLINE)[0], shown)
            piece = os.read(job.stdout.fileno(), 4096)
            if not piece:
                self.fail(job.communicate()[1])
            shown += piece
        ranks = [line.split()[1:] for line in shown.decode().splitlines()]

        def files():
            return {file for pid, _ in ranks for file in glob.glob(f"/dev/shm/torch_{pid}_*")}
        self.assertEqual(files(), {f"/dev/shm{name}" for _, name in ranks})
        self.assertEqual(len(self.managers()), 2)
        return files

    def proceed(self):
        os.write(self.fifo, b"xx")

    def assert_ended(self, job, code, *attempts):
        out, err = job.communicate(timeout=support.DEADLINE)
        self.assertEqual(job.returncode, code, out + err)
        self.assertEqual([files() for files in attempts], [set()] * len(attempts), err)
        self.assertEqual(find_pids(self.token), [])

    def test_no_file_remains_after_a_failure_and_after_success(self):
        job = self.start(3, "--max-restarts=1")
        first = self.files_of_attempt(job)
        self.proceed()
        second = self.files_of_attempt(job)
        self.assertEqual(first(), set())
        self.proceed()
        self.assert_ended(job, 0, first, second)

    def test_no_file_remains_after_sigterm(self):
        job = self.start(0)
        files = self.files_of_attempt(job)
        job.send_signal(signal.SIGTERM)
        self.assert_ended(job, 128 + signal.SIGTERM, files)

    def test_no_file_remains_without_a_grace_period(self):
        job = self.start(3, "--max-restarts=1", "--shutdown-timeout=0")
        first = self.files_of_attempt(job)
        self.proceed()
        second = self.files_of_attempt(job)
        job.send_signal(signal.SIGTERM)
        self.assert_ended(job, 128 + signal.SIGTERM, first, second)


# Runs a file like a notebook cell: __main__ has no file, and the source is only in linecache.
CELL = """
import linecache, sys
with open(sys.argv[1]) as file:
    text = file.read()
name = "/tmp/ipykernel_7/1.py"
linecache.cache[name] = len(text), None, text.splitlines(True), name
exec(compile(text, name, "exec"))
"""


class Source(support.PackageCase):
    """Functions of a program that muster.launch calls have their source. Uses cloudpickle 3.1.3 or
    later (scripts/pythons), which replaces the names of files."""

    def setUp(self):
        super().setUp()
        found = support.run([os.path.join(support.ROOT, "scripts/pythons")], timeout=500)
        version = "{}.{}".format(*sys.version_info)
        modules, = [line.split()[2] for line in self.succeeded(found).splitlines()
                    if line.split()[0] == version]
        path = os.path.join(self.folder, "path")  # without the NumPy in that folder
        os.mkdir(path)
        os.symlink(os.path.join(modules, "cloudpickle"), os.path.join(path, "cloudpickle"))
        self.environment.update(MUSTER_BIN=support.program("muster"), PYTHONPATH=os.pathsep.join(
            (path, self.environment["PYTHONPATH"])))

    def assert_compiled(self, *words):
        """torch.jit.script and triton.jit can read the functions. The worker has a stand-in for
        Triton, which Debian lacks."""
        done = support.run([sys.executable, *words, worker("compiles_source.py")],
                           env=self.environment)
        compiler, *shown = self.succeeded(done).splitlines()
        self.assertEqual(compiler == "__main__", importlib.util.find_spec("triton") is None)
        self.assertEqual(shown, [
            "1.0", "def write_length(pointer, length):", "    pointer.write(length)", "",
            "def nested(pointer):", "    return pointer", ""])

    def test_compilers_find_the_functions_of_a_script(self):
        self.assert_compiled()

    def test_compilers_find_the_functions_of_a_notebook(self):
        self.assert_compiled("-c", CELL)


if __name__ == "__main__":
    unittest.main(verbosity=2)
