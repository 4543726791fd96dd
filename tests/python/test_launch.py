# SPDX-License-Identifier: Apache-2.0
"""muster.launch with real jobs: what it returns, how it fails, and what it leaves behind."""
import contextlib
import inspect
import io
import multiprocessing
import os
import select
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import threading
import unittest
import uuid
from unittest import mock

import muster
from muster.jobs.listener import Answers, Listener
from support import DEADLINE, ROOT, FolderCase, free_port
from cases import environment_without, eventually, find_pids, spawn

HERE = os.path.abspath(__file__)
TOKEN = "MUSTER_TEST_TOKEN"


class Point:
    """A class in this program, not in a module that a worker could import."""

    def __init__(self, x):
        self.x = x


class Lost(Exception):
    """pickle can write it but not read it, because its constructor needs two arguments."""

    def __init__(self, one, two):
        super().__init__(f"{one} and {two}")


def rank():
    return int(os.environ["RANK"])


def twice(x):
    return 2 * x


def touch(folder, name):
    with open(os.path.join(folder, name), "w", encoding="utf-8"):
        pass


def of_job(token):
    """The processes that carry this token in their environment."""
    return find_pids(f"{TOKEN}={token}")


def of_batch_script(nodes):
    """The variables of a batch script of Slurm on two machines."""
    return {"SLURM_JOB_ID": "7", "SLURM_JOB_NUM_NODES": "2", "SLURM_NNODES": "2",
            "SLURM_JOB_NODELIST": nodes, "SLURM_NODELIST": nodes}


def of_task(nodes, node):
    """The variables of one of two tasks that srun starts there."""
    return {**of_batch_script(nodes), "SLURM_STEP_ID": "0", "SLURM_STEP_NUM_NODES": "2",
            "SLURM_NODEID": node, "SLURM_STEP_NODELIST": nodes, "SLURM_STEP_NUM_TASKS": "2",
            "SLURM_PROCID": node, "SLURM_NTASKS": "2", "SLURM_LOCALID": "0",
            "SLURM_STEP_TASKS_PER_NODE": "1(x2)"}


class LaunchCase(FolderCase):
    def launch(self, function, *args, **more):
        """Returns the results; self.out and self.err contain the output."""
        with contextlib.redirect_stdout(io.StringIO()) as out, \
                contextlib.redirect_stderr(io.StringIO()) as err:
            try:
                return muster.launch(function, *args, **more)
            finally:
                self.out, self.err = out.getvalue(), err.getvalue()

    def error(self, function, *args, **more):
        with self.assertRaises(muster.JobError) as caught:
            self.launch(function, *args, **more)
        return caught.exception


class Results(LaunchCase):
    def test_by_rank(self):
        self.assertEqual(self.launch(rank, nproc=3), [0, 1, 2])

    def test_arguments(self):
        found = self.launch(lambda *a, **k: (a, k), 1, "two", kwargs={"three": 3}, nproc=1)
        self.assertEqual(found, [((1, "two"), {"three": 3})])

    def test_they_are_ranks_of_one_job(self):
        def sum_of_ranks():
            import array
            with muster.Communicator.from_env() as comm:
                return comm.all_reduce(array.array("f", [comm.rank])).tolist()
        for _ in range(2):
            self.assertEqual(self.launch(sum_of_ranks), [[1.0]] * 2)

    def test_classes_of_the_program(self):
        def move(point):
            import pickle
            return pickle.loads(pickle.dumps(Point(point.x + rank())))
        moved = self.launch(move, Point(5))
        self.assertEqual([point.x for point in moved], [5, 6])
        self.assertIs(type(moved[0]), Point)

    def test_large_ones(self):
        size = 50_000_000
        found = self.launch(lambda data: (len(data), bytes(size)), bytes(size))
        self.assertEqual([(got, len(sent)) for got, sent in found], [(size, size)] * 2)

    def test_the_callers_modules_and_variables(self):
        with open(os.path.join(self.folder, "only_here.py"), "w", encoding="utf-8") as file:
            file.write("value = 'of the module'\n")

        def function():
            import only_here
            return only_here.value, os.environ["EXTRA"], os.getcwd()
        sys.path.append(self.folder)
        self.addCleanup(sys.path.remove, self.folder)
        self.assertEqual(self.launch(function, nproc=1, env={"EXTRA": "e"}),
                         [("of the module", "e", os.getcwd())])

    def test_functions_have_their_source(self):
        """Like a request from tools that compile functions."""
        def function():
            return inspect.getsource(twice), inspect.getsourcefile(twice)
        self.assertEqual(self.launch(function, nproc=1),
                         [("def twice(x):\n    return 2 * x\n", HERE)])

    def test_children_that_are_spawned_import_the_callers_program(self):
        def function():
            child = multiprocessing.get_context(method).Process(target=twice, args=(1,))
            child.start()
            child.join()
            return child.exitcode
        for method in ("spawn", "forkserver"):
            self.assertEqual(self.launch(function), [0, 0], method)

    def test_within_an_allocation_it_is_a_job_of_this_machine(self):
        def function():
            return os.environ["WORLD_SIZE"]
        for variables in (of_batch_script("n[1-2]"), of_task("n[1-2]", "0")):
            with mock.patch.dict(os.environ, variables):
                self.assertEqual(self.launch(function), ["2", "2"])

    def test_two_trials_at_once_in_an_allocation_do_not_share_a_world(self):
        def function(trial, folder):
            import array
            touch(folder, f"{trial} {rank()}")
            eventually(lambda: len(os.listdir(folder)) == 4, "all ranks of both trials run")
            with muster.Communicator.from_env() as comm:
                return comm.rank, comm.all_reduce(array.array("f", [trial])).tolist()

        def run(trial, folder, variables):
            found[trial] = muster.launch(function, trial, folder, env=variables, label=False)
        nodes = "localhost,n2"  # both tasks can reach the first one
        for name, both in (("script", [of_batch_script(nodes)] * 2),
                           ("tasks", [of_task(nodes, node) for node in "01"])):
            folder = os.path.join(self.folder, name)
            os.mkdir(folder)
            found = {}
            trials = [threading.Thread(target=run, args=(trial, folder, variables), daemon=True)
                      for trial, variables in zip((1, 10), both)]
            for each in trials:
                each.start()
            for each in trials:
                each.join(DEADLINE)
            self.assertEqual(found, {1: [(0, [2.0]), (1, [2.0])], 10: [(0, [20.0]), (1, [20.0])]},
                             name)

    def test_functions_do_not_run_on_other_hosts(self):
        for name in ("hosts", "hostfile"):
            with self.assertRaisesRegex(ValueError, f"{name}= works only with programs: .*nnodes="):
                self.launch(rank, **{name: "a,b"})

    def test_no_worker_is_forked_from_the_caller(self):
        """Needed if the caller has initialised CUDA or runs threads."""
        sys.of_the_caller = True
        self.addCleanup(delattr, sys, "of_the_caller")
        end = threading.Event()
        threads = [threading.Thread(target=end.wait) for _ in range(8)]
        for each in threads:
            each.start()
        try:
            found = self.launch(lambda: (hasattr(sys, "of_the_caller"),
                                         len(os.listdir("/proc/self/task"))))
        finally:
            end.set()
            for each in threads:
                each.join()
        self.assertEqual(found, [(False, 1)] * 2)

    def test_from_another_thread(self):
        found = []
        thread = threading.Thread(target=lambda: found.append(self.launch(rank)))
        thread.start()
        thread.join()
        self.assertEqual(found, [[0, 1]])

    def test_output_has_the_rank_in_front(self):
        def talk():
            print("out")
            print("err", file=sys.stderr)
        self.launch(talk)
        for said, word in ((self.out, "out"), (self.err, "err")):
            self.assertEqual(sorted(said.splitlines()),
                             [f"[rank {each}]: {word}" for each in (0, 1)])
        self.launch(talk, label=False)
        self.assertEqual(self.out, "out\nout\n")

    def test_what_ends_no_line_appears_at_once(self):
        """A progress bar, dots: the rank continues once the caller has seen them."""
        def function(folder, text):
            sys.stderr.write(text)
            sys.stderr.flush()
            eventually(lambda: os.path.exists(os.path.join(folder, "seen")), "it is shown")
            return text

        class Watched(io.StringIO):
            def write(self, text):
                if text:
                    touch(folder, "seen")
                return super().write(text)
        for name, text in (("bar", "\r 50%"), ("dots", "...")):
            folder = os.path.join(self.folder, name)
            os.mkdir(folder)
            with contextlib.redirect_stderr(Watched()) as err:
                self.assertEqual(muster.launch(function, folder, text, nproc=1, label=False),
                                 [text])
            self.assertEqual(err.getvalue(), text)

    def test_dots_reach_a_pipe_and_a_terminal_while_the_rank_waits(self):
        """Python buffers output to a pipe, and to a terminal until the end of the line."""
        for stream_ends in (os.pipe, os.openpty):
            folder = os.path.join(self.folder, stream_ends.__name__)
            os.mkdir(folder)
            (out, caller_out), (err, caller_err) = stream_ends(), stream_ends()
            for end in (out, err):
                self.addCleanup(os.close, end)
            caller = spawn(self, [sys.executable, HERE, "dotting", folder],
                           env=environment_without("PYTHONUNBUFFERED"), stdin=subprocess.DEVNULL,
                           stdout=caller_out, stderr=caller_err)
            os.close(caller_out)
            os.close(caller_err)
            for end in (out, err):
                shown = b""
                while shown != b"...":
                    self.assertTrue(select.select([end], [], [], DEADLINE)[0], shown)
                    piece = os.read(end, 100)
                    self.assertTrue(piece, "the caller has exited")
                    shown += piece
            touch(folder, "seen")
            self.assertEqual(caller.wait(DEADLINE), 0)

    def test_a_program(self):
        path = os.path.join(self.folder, "program.py")
        with open(path, "w", encoding="utf-8") as file:
            file.write("import sys\nprint(sys.argv[1:])\nsys.exit(int(sys.argv[1]))\n")
        self.assertEqual(self.launch(path, 0, "x"), [None, None])
        self.assertEqual(self.out.splitlines().count("[rank 1]: ['0', 'x']"), 1)
        error = self.error(path, 5, nproc=1)
        self.assertEqual((type(error), error.rank, error.code), (muster.WorkerError, 0, 5))

    def test_warm(self):
        count = os.path.join(self.folder, "count")
        with open(os.path.join(self.folder, "counted.py"), "w", encoding="utf-8") as file:
            file.write(f"open({count!r}, 'a').write('imported\\n')\n")
        sys.path.append(self.folder)
        self.addCleanup(sys.path.remove, self.folder)

        def function():
            import counted
            return counted.__name__
        for warm, times in ((False, 2), ("counted", 1), (["json", "counted"], 1)):
            with contextlib.suppress(FileNotFoundError):
                os.remove(count)
            # The process that imports modules for all workers sees PYTHONPATH, not sys.path.
            self.assertEqual(self.launch(function, warm=warm, env={
                "PYTHONPATH": self.folder, "OMP_NUM_THREADS": "1"}), ["counted"] * 2)
            with open(count, encoding="utf-8") as file:
                self.assertEqual(file.read().count("imported"), times, (warm, self.err))

    def test_warm_with_what_the_function_needs(self):
        def function():
            there = "colorsys" in sys.modules
            import colorsys
            return there, colorsys.__name__, sys.argv[1:]
        for warm in (True, False):
            self.assertEqual(self.launch(function, warm=warm), [(warm, "colorsys", [])] * 2)


class Failures(LaunchCase):
    def test_an_exception(self):
        def function():
            if rank() == 1:
                raise KeyError("the key")
            signal.pause()
        error = self.error(function)
        self.assertIsInstance(error, muster.WorkerError)
        self.assertEqual((error.rank, error.code, error.__cause__.args), (1, 1, ("the key",)))
        self.assertIs(type(error.__cause__), KeyError)
        self.assertIn('raise KeyError("the key")', error.traceback)
        self.assertNotIn("worker.py", error.traceback)
        self.assertIn(error.traceback.rstrip(), str(error))

    def test_of_several_the_one_that_came_first(self):
        """The other ranks fail only because it did."""
        def function(folder):
            if rank() == 0:
                signal.signal(signal.SIGTERM, lambda *_: 1 / 0)
                touch(folder, "ready")
                signal.pause()
            eventually(lambda: os.path.exists(os.path.join(folder, "ready")), "rank 0 waits")
            raise ValueError("first")
        error = self.error(function, self.folder)
        self.assertEqual((error.rank, str(error.__cause__)), (1, "first"))

    def test_an_exception_that_cannot_be_sent(self):
        error = self.error(lambda: (_ for _ in ()).throw(Lost(1, 2)), nproc=1)
        self.assertIsNone(error.__cause__)
        self.assertIn("Lost: 1 and 2", str(error))

    def test_a_result_that_cannot_be_sent(self):
        error = self.error(threading.Lock, nproc=1)
        self.assertIn("the function's result, a lock, cannot be sent to the caller", str(error))

    def test_ends_without_an_exception(self):
        for function, code, said in (
                (lambda: os.kill(os.getpid(), signal.SIGKILL), 137, "killed by SIGKILL"),
                (lambda: os._exit(7), 7, "exited with code 7"),
                (lambda: os._exit(0), 0, "exited with code 0 before the function returned"),
                (lambda: sys.exit(3), 3, "SystemExit: 3"),
                (lambda: sys.exit("words"), 1, "SystemExit: words")):
            with self.subTest(said):
                error = self.error(function, nproc=1)
                self.assertEqual((error.rank, error.code), (0, code))
                self.assertIn(said, str(error))
        self.assertEqual(self.launch(sys.exit, nproc=1), [None])

    def test_a_restart(self):
        def function():
            if os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
                if rank() == 0:
                    raise ValueError("once")
                signal.pause()
            return rank()
        self.assertEqual(self.launch(function, max_restarts=1), [0, 1])

    def test_the_launcher_s_report_of_an_exception(self):
        def function():
            if rank() == 1:
                raise KeyError("the key")
            signal.pause()
        logs = os.path.join(self.folder, "logs")
        error = self.error(function, log_dir=logs)
        self.assertEqual(os.path.dirname(error.logs), logs)
        self.assertEqual(sorted(each for each in os.listdir(error.logs) if "." in each),
                         ["events.jsonl", "report.json"])
        cause = error.report["root_cause"]
        self.assertEqual((error.report["exit_code"], cause["rank"], cause["message"]),
                         (1, 1, "KeyError: 'the key'"))
        self.assertEqual(cause["traceback"], error.traceback)
        self.assertIn("  | KeyError: 'the key'\n", self.err)
        again = self.error(function, log_dir=logs)
        self.assertNotEqual(again.logs, error.logs)
        self.assertIsNone(self.error(function).logs)

    def test_the_launcher_s_report_of_a_program_and_of_a_death(self):
        path = os.path.join(self.folder, "program.py")
        with open(path, "w", encoding="utf-8") as file:
            file.write("raise ValueError('of the program')\n")
        error = self.error(path, nproc=1, log_dir=self.folder)
        self.assertIn("ValueError: of the program", error.report["root_cause"]["stderr_tail"])
        error = self.error(lambda: os.kill(os.getpid(), signal.SIGKILL), nproc=1,
                           log_dir=self.folder)
        self.assertEqual(error.report["root_cause"]["signal"], "SIGKILL")
        error = self.error(rank, log_dir=os.path.join(self.folder, "unused"), max_restart="x")
        self.assertEqual((error.code, error.logs, error.report), (2, None, None))

    def test_what_the_function_has_recorded_itself_stays(self):
        def function():
            with open(os.environ["TORCHELASTIC_ERROR_FILE"], "w", encoding="utf-8") as file:
                file.write('{"message": {"message": "by record", "extraInfo": {}}}')
            raise KeyError("the key")
        error = self.error(function, nproc=1, log_dir=self.folder)
        self.assertEqual(error.report["root_cause"]["message"], "by record")
        self.assertEqual(error.__cause__.args, ("the key",))

    def test_a_wrong_option(self):
        error = self.error(rank, max_restart="x")
        self.assertEqual((type(error), error.code), (muster.JobError, 2))
        self.assertIn("max-restart", str(error))

    def test_what_is_no_function(self):
        with self.assertRaisesRegex(TypeError, "neither a function nor a path"):
            muster.launch(3)


def interrupted(folder):
    """The caller in test_ctrl_c: launches, is interrupted, launches again."""
    def wait():
        touch(folder, f"up{rank()}")
        signal.pause()
    # Shells start background jobs with this signal ignored, and this process would inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        muster.launch(wait, shutdown_timeout=5)
    except KeyboardInterrupt:
        print("interrupted,", "alive" if len(of_job(os.environ[TOKEN])) > 1 else "gone", flush=True)
    print(muster.launch(rank), flush=True)


def dotting(folder):
    """The caller in test_dots_reach_a_pipe_and_a_terminal_while_the_rank_waits."""
    def write_dots():
        for stream in (sys.stdout, sys.stderr):
            stream.write("...")
            stream.flush()
        eventually(lambda: os.path.exists(os.path.join(folder, "seen")), "the test has read them")
    muster.launch(write_dots, nproc=1, label=False)


def forgotten(folder):
    """The caller in test_a_killed_caller."""
    def wait():
        touch(folder, f"up{rank()}")
        signal.pause()
    muster.launch(wait)


class Ends(LaunchCase):
    def caller(self, name):
        """A separate process that runs a function of this file; returns it once its ranks are
        up."""
        self.token = uuid.uuid4().hex
        caller = subprocess.Popen([sys.executable, HERE, name, self.folder], text=True,
                                  env={**os.environ, TOKEN: self.token},
                                  start_new_session=True, stdin=subprocess.DEVNULL,
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        eventually(lambda: len(os.listdir(self.folder)) == 2, "both ranks are up")
        return caller

    def test_ctrl_c_ends_the_job_and_only_it(self):
        caller = self.caller("interrupted")
        # Otherwise the launcher would receive it twice, and treat that as a second Ctrl-C.
        self.assertEqual([pid for pid in of_job(self.token) if os.getpgid(pid) == caller.pid],
                         [caller.pid])
        os.killpg(caller.pid, signal.SIGINT)  # to the group, like a terminal and Jupyter
        out, err = caller.communicate(timeout=DEADLINE)
        self.assertEqual((caller.returncode, out), (0, "interrupted, gone\n[0, 1]\n"), err)
        self.assertNotIn("Traceback", err)

    def test_a_killed_caller(self):
        caller = self.caller("forgotten")
        self.assertGreaterEqual(len(of_job(self.token)), 4)
        caller.kill()
        caller.communicate(timeout=DEADLINE)
        eventually(lambda: not of_job(self.token), "the job has ended")

    def test_nothing_is_left_in_the_temporary_folder(self):
        with tempfile.TemporaryDirectory() as folder:
            tempfile.tempdir = folder
            try:
                self.launch(rank)
                self.error(lambda: 1 / 0)
                self.assertEqual(os.listdir(folder), [])
            finally:
                tempfile.tempdir = None

    def test_no_descriptor_is_left(self):
        before = os.listdir("/proc/self/fd")
        self.launch(rank)
        self.error(lambda: 1 / 0)
        self.assertEqual(os.listdir("/proc/self/fd"), before)


class Module(unittest.TestCase):
    """python -m muster"""

    def run_module(self, *words, **variables):
        return subprocess.run([sys.executable, "-m", "muster", *words], text=True,
                              stdin=subprocess.DEVNULL, capture_output=True, timeout=DEADLINE,
                              env={**os.environ, **variables})

    def test_it_is_the_launcher_with_this_python(self):
        with tempfile.NamedTemporaryFile("w", suffix=".py") as script:
            script.write("import sys\nprint(sys.executable, *sys.argv[1:])\nsys.exit(3)\n")
            script.flush()
            done = self.run_module("--nproc-per-node=1", script.name, "--lr=0.1")
        self.assertEqual((done.returncode, done.stdout), (3, f"{sys.executable} --lr=0.1\n"))

    def test_where_there_is_no_launcher_one_line_says_so(self):
        done = self.run_module("--version", MUSTER_BIN="/nowhere/muster")
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertRegex(done.stderr, "^muster: MUSTER_BIN=/nowhere/muster: .*\n$")


class Strangers(LaunchCase):
    """A rank's messages are unpickled, so no other process may send them."""

    def listener(self):
        listener = Listener((b"the context", b"the job"), Answers())
        self.addCleanup(listener.close)
        return listener

    def test_nobody_else_may_enter_the_sockets_folder(self):
        folder = os.stat(os.path.dirname(self.listener().path))
        self.assertEqual((stat.S_IMODE(folder.st_mode), folder.st_uid), (0o700, os.geteuid()))

    @unittest.skipIf(os.geteuid() != 0, "only root can be another user")
    def test_another_user_is_turned_away(self):
        listener = self.listener()
        os.chmod(os.path.dirname(listener.path), 0o755)  # as if a user had been careless
        os.chmod(listener.path, 0o777)
        stranger = subprocess.Popen(
            [sys.executable, "-c", "import os, socket, sys\nos.setuid(65534)\n"
             "link = socket.socket(socket.AF_UNIX)\nlink.connect(sys.argv[1])\n"
             "print('connected', flush=True)\nprint(link.recv(9))", listener.path],
            stdout=subprocess.PIPE, text=True)
        self.assertEqual(stranger.stdout.readline(), "connected\n")
        self.assertIsNone(listener.accept())
        self.assertEqual(stranger.communicate(timeout=DEADLINE)[0], "b''\n")
        with socket.socket(socket.AF_UNIX) as ours:
            ours.connect(listener.path)
            connection = listener.accept()
            self.assertIsNotNone(connection)
            connection.socket.close()

    def test_a_temporary_folder_with_a_long_name(self):
        long = os.path.join(self.folder, "x" * 100)
        os.mkdir(long)
        tempfile.tempdir = long
        try:
            self.assertEqual(self.launch(rank), [0, 1])
        finally:
            tempfile.tempdir = None

    def test_a_rank_that_sends_rubbish_ends_the_job(self):
        def function(root):
            sys.path.insert(0, root)
            import gc
            link = next(each for each in gc.get_objects() if isinstance(each, socket.socket)
                        and each.family == socket.AF_UNIX)
            link.sendall(b"GET / HTTP/1.1\r\n\r\n")
            signal.pause()
        self.assertIn("a message of unknown type b'G'",
                      str(self.error(function, ROOT, nproc=1)))


class Notebooks(LaunchCase):
    def test_accelerates_arguments(self):
        def function(*args):
            return args, os.environ["ACCELERATE_MIXED_PRECISION"], os.environ["WORLD_SIZE"]
        with contextlib.redirect_stdout(io.StringIO()):
            self.assertEqual(muster.notebook_launcher(function, (1, 2), 2, "BF16"),
                             [((1, 2), "bf16", "2")] * 2)
            self.assertEqual(muster.notebook_launcher(function, num_processes=1),
                             [((), "no", "1")])

    def test_two_nodes(self):
        def node(node_rank, port):
            return muster.notebook_launcher(
                rank, (), 2, node_rank=node_rank, num_nodes=2, use_port=port)
        self.assertEqual(self.on_two_nodes(node), {0: [0, 1], 1: [2, 3]})

    def test_the_other_node_is_told_of_the_exception(self):
        def fails():
            if rank() == 1:
                raise KeyError("the key")
            signal.pause()

        def node(node_rank, port):
            with self.assertRaises(muster.WorkerError) as caught:
                muster.notebook_launcher(fails, (), 1, node_rank=node_rank, num_nodes=2,
                                         use_port=port)
            return caught.exception
        for error in self.on_two_nodes(node).values():
            self.assertEqual(error.rank, 1)
            self.assertIn("KeyError: 'the key'", str(error))

    def on_two_nodes(self, node):
        """The results of calling it with the number of each node and a port."""
        port = free_port()
        found = {}
        threads = [threading.Thread(target=lambda each: found.update({each: node(each, port)}),
                                    args=(each,)) for each in (0, 1)]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
        return found


if __name__ == "__main__":
    if len(sys.argv) == 3 and sys.argv[1] in ("interrupted", "forgotten", "dotting"):
        globals()[sys.argv[1]](sys.argv[2])
    else:
        unittest.main(verbosity=2)
