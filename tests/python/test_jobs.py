# SPDX-License-Identifier: Apache-2.0
"""The pure parts of muster.launch: decoding messages from bytes, answers with results, options as a
command line, splitting output into lines, a function's modules."""
import contextlib
import importlib.util
import io
import os
import pickle
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import types
import unittest
from unittest import mock

import cloudpickle

from muster import spark, spark_output
from muster.jobs import answers, command, errors, listener, messages, notebook, output, pickling
from muster.jobs import logs, program, worker
from muster.jobs.worker import FAILURE, HEADER, HELLO, RESULT
from support import FolderCase


def message(kind, content=b""):
    return HEADER.pack(kind, len(content)) + content


def failure(error, text="a traceback"):
    return FAILURE, bytearray(pickle.dumps((text, pickle.dumps(error))))


def result(value):
    return RESULT, bytearray(pickle.dumps(value))


class Messages(unittest.TestCase):
    def test_cut_anywhere(self):
        whole = (message(HELLO, worker.GREETING.pack(1, 2)) + message(RESULT)
                 + message(RESULT, b"ab"))
        for cut in range(len(whole) + 1):
            inbox = messages.Inbox()
            found = inbox.feed(whole[:cut]) + inbox.feed(whole[cut:])
            self.assertEqual([kind for kind, _ in found], [HELLO, RESULT, RESULT])
            self.assertEqual(bytes(found[2][1]), b"ab")
            self.assertEqual(messages.greeting(found[0][1]), (1, 2))

    def test_limits(self):
        for kind, most in messages.LENGTH_MAX.items():
            self.assertEqual(messages.Inbox().feed(HEADER.pack(kind, most)), [])
            with self.assertRaisesRegex(messages.BadMessage, f"{most + 1} bytes"):
                messages.Inbox().feed(HEADER.pack(kind, most + 1))  # before its content arrives

    def test_rubbish(self):
        for rubbish in (b"GET / HTTP/1.1\r\n\r\n", message(b"J"), bytes(9)):
            with self.assertRaises(messages.BadMessage):
                messages.Inbox().feed(rubbish)
        with self.assertRaises(messages.BadMessage):
            messages.greeting(bytearray(3))


class Answers(unittest.TestCase):
    WORDS = ("[rank 0]: muster: x: rank 7 said so\n"
             "muster: f.py: rank 1 killed by SIGKILL\n  node n\n")

    def answers(self, *given, attempt=0):
        found = answers.Answers()
        for rank, _ in given:
            found.hello(attempt, rank)
        for rank, answer in given:
            if answer:
                found.answer(attempt, rank, answer)
        return found

    def error(self, found, code, words=""):
        with self.assertRaises(errors.JobError) as caught:
            found.results(code, words)
        return caught.exception

    def test_results_are_in_the_order_of_ranks(self):
        found = self.answers((2, result("c")), (0, result("a")), (1, result("b")))
        self.assertEqual(found.results(0, ""), ["a", "b", "c"])

    def test_the_rank_that_the_launcher_blames(self):
        found = self.answers((0, failure(KeyError("late"))), (1, failure(ValueError("first"))))
        error = self.error(found, 1, self.WORDS)
        self.assertEqual((error.rank, error.code, type(error.__cause__)), (1, 1, ValueError))
        self.assertEqual(error.traceback, "a traceback")

    def test_the_first_exception_where_it_blames_none(self):
        found = self.answers((1, failure(ValueError("first"))), (0, failure(KeyError("late"))))
        self.assertEqual(self.error(found, 1).rank, 1)

    def test_killed_ranks_are_told_of_by_the_launcher_not_by_others_exceptions(self):
        found = self.answers((0, failure(KeyError("a peer died"))), (1, None))
        error = self.error(found, 137, self.WORDS)
        self.assertEqual((error.rank, error.__cause__), (1, None))
        self.assertIn("killed by SIGKILL\n  node n", str(error))
        self.assertNotIn("rank 7", str(error))

    def test_no_result_at_the_end(self):
        self.assertEqual(self.error(self.answers((0, result(1)), (1, None)), 0).rank, 1)
        error = self.error(self.answers(), 2, "muster: unknown option --x\n")
        self.assertNotIsInstance(error, errors.WorkerError)
        self.assertIn("unknown option --x", str(error))

    def test_results_do_not_count_where_the_job_failed(self):
        self.assertEqual(self.error(self.answers((0, result(1))), 143).code, 143)

    def test_a_new_attempt(self):
        found = self.answers((0, failure(KeyError())), (1, result("old")), (2, None))
        found.hello(1, 0)
        found.hello(0, 3)
        found.hello(1, 1)
        found.answer(1, 1, result("b"))
        found.answer(1, 0, result("a"))
        found.answer(0, 1, result("late"))
        self.assertEqual(found.results(0, ""), ["a", "b"])

    def test_errors_can_be_pickled(self):
        told = errors.WorkerError(3, "text", 1)
        told.logs, told.report = "/logs/job", {"root_rank": 3}
        for error in (errors.WorkerError(3, "text", 1), errors.JobError("text", 2), told):
            again = pickle.loads(pickle.dumps(error))
            self.assertEqual((str(again), vars(again)), (str(error), vars(error)))


class Logs(FolderCase):
    def run_folder(self, name, first, report=None):
        folder = os.path.join(self.folder, name)
        os.mkdir(folder)
        for file, text in (("events.jsonl", first), ("report.json", report)):
            if text is not None:
                with open(os.path.join(folder, file), "w", encoding="utf-8") as out:
                    out.write(text)
        return folder

    def error(self, made, **options):
        """The caller of a job whose launcher has pid 7 and creates these folders."""
        with self.assertRaises(errors.JobError) as caught:
            with logs.Logs({"log_dir": self.folder, **options}) as job:
                job.launcher_pid = 7
                self.folders = [self.run_folder(*each) for each in made]
                raise errors.JobError("failed", 1)
        return caught.exception

    def test_the_folder_that_this_job_s_launcher_made(self):
        ours = '{"event": "job_started", "launcher_pid": 7}\n{"event": "x"}\n'
        self.run_folder("earlier", ours, '{"of": "an earlier one with the same pid"}')
        error = self.error([("other", ours.replace("7", "8"), "{}"),
                            ("mine", ours, '{"root_rank": 1}')])
        self.assertEqual((error.logs, error.report), (self.folders[1], {"root_rank": 1}))

    def test_what_is_not_there_or_no_json_is_none(self):
        self.assertEqual((self.error([]).logs, self.error([]).report), (None, None))
        for number, first in enumerate((None, "", "[1]\n", "{}\n", "rubbish\n", '"\\ud8')):
            self.assertIsNone(self.error([(f"rubbish{number}", first, "{}")]).logs, first)
        for number, report in enumerate((None, "", "[]", '{"torn": ')):
            error = self.error([(f"mine{number}", '{"launcher_pid": 7}\n', report)])
            self.assertEqual((error.logs, error.report), (self.folders[0], None), report)

    def test_without_log_dir_there_is_none(self):
        self.assertIsNone(self.error([("mine", '{"launcher_pid": 7}\n', "{}")], log_dir=None).logs)


HERE = ["--platform=none", "--nnodes=1"]  # a job on this machine


class Command(unittest.TestCase):
    def test_options(self):
        for value, words in ((None, []), (False, []), (True, ["--max-restarts"]),
                             (3, ["--max-restarts=3"]), (("a", 1), ["--max-restarts=a,1"])):
            self.assertEqual(command.option("max_restarts", value), words)

    def test_lines_are_labelled_unless_not_wanted(self):
        self.assertEqual(command.command("m", 2, {}, ["f"]),
                         ["m", "--nproc-per-node=2", *HERE, "--label",
                          "--log-line-prefix-template=[rank ${rank}]: ", "f"])
        self.assertEqual(command.command("m", "gpu", {"label": False}, ["f"]),
                         ["m", "--nproc-per-node=gpu", *HERE, "f"])
        own = command.command("m", 1, {"log_line_prefix_template": "${rank} "}, ["f"])
        self.assertEqual(own[4:], ["--label", "--log-line-prefix-template=${rank} ", "f"])

    def test_an_option_for_several_machines_makes_it_no_job_of_this_one(self):
        for options in ({"nnodes": 2}, {"rdzv_endpoint": "head:1"}, {"platform": "slurm"}):
            words = command.command("m", 2, options, ["f"])
            self.assertEqual([word for word in HERE if word in words], [], options)

    def test_launchers_of_several_machines_do_not_compare_the_call(self):
        self.assertEqual(command.uncompared({"label": True}), {"label": True})
        for conf, words in ((None, []), ("lease=3", ["lease=3"]), (("lease=3",), ["lease=3"])):
            self.assertEqual(command.uncompared({"nnodes": 2, "rdzv_conf": conf}),
                             {"nnodes": 2, "rdzv_conf": [*words, "any_program=true"]})

    def test_machines_of_a_notebook(self):
        master = ("node1", "29500")
        for given, options in (
                ((1, 0, master, "static", ""), {}),
                ((1, 0, ("node1", "4000"), "static", ""),
                 {"master_addr": "node1", "master_port": "4000"}),
                ((2, 1, master, "static", ""),
                 {"nnodes": 2, "rdzv_backend": "static", "node_rank": 1,
                  "rdzv_endpoint": "node1:29500"}),
                ((2, 1, master, "c10d", "head:1"),
                 {"nnodes": 2, "rdzv_backend": "c10d", "rdzv_endpoint": "head:1"})):
            self.assertEqual(notebook.rendezvous(*given), options)

    def test_wrong_arguments_of_a_notebook(self):
        for wrong in ({"mixed_precision": "fp4"}, {"node_rank": 1}):
            with self.assertRaises(ValueError):
                notebook.notebook_launcher(print, **wrong)


class Output(unittest.TestCase):
    def test_text_goes_out_as_it_arrives(self):
        stream = io.StringIO()
        out = output.Output(stream)
        for byte, shown in zip("é\r.".encode(), ("", "é", "é\r", "é\r.")):
            out.feed(bytes([byte]))
            self.assertEqual(stream.getvalue(), shown)
        out.close()
        self.assertEqual(out.tail, "é\r.")

    def test_whole_lines(self):
        stream = io.StringIO()
        out = output.Output(stream, whole_lines=True)
        for byte in "aé\nb\rc".encode():
            out.feed(bytes([byte]))
            self.assertIn(stream.getvalue(), ("", "aé\n"))
        out.close()
        self.assertEqual(stream.getvalue(), "aé\nb\rc")
        self.assertEqual(out.tail, "aé\nb\rc")

    def test_bytes_that_are_no_text(self):
        stream = io.StringIO()
        output.Output(stream).feed(b"a\xff\n")
        self.assertEqual(stream.getvalue(), "a\ufffd\n")

    def test_what_is_remembered_is_limited(self):
        out = output.Output(io.StringIO())
        for _ in range(3):
            out.feed(b"x" * (output.TAIL_MAX - 1) + b"\n")
        out.feed(b"last\n")
        self.assertEqual(len(out.tail), output.TAIL_MAX)
        self.assertTrue(out.tail.endswith("x\nlast\n"))


class Pickling(unittest.TestCase):
    def test_modules_of_a_function(self):
        def function():
            import json.decoder

            def inner():
                return struct.calcsize, support_of_nobody  # noqa: F821
            return tempfile, json, inner
        self.assertEqual(pickling.modules_of(function), ["json.decoder", "struct", "tempfile"])

    def test_modules_of_the_functions_that_it_calls(self):
        def function():
            return result(1), function
        self.assertEqual(pickling.modules_of(function), ["pickle"])

    def test_the_users_own_modules_are_not_imported_ahead(self):
        def function():
            return answers, unittest
        self.assertEqual(pickling.modules_of(function), ["unittest"])
        self.assertEqual(pickling.modules_of(print), [])

    def test_what_cannot_be_sent(self):
        with self.assertRaisesRegex(TypeError, "cannot be sent to the workers: "):
            pickling.pack_call(print, [threading.Lock()], {})

    def test_functions_keep_the_names_of_their_files(self):
        """Also with a cloudpickle that drops them, as versions from 3.1.3 on do."""
        def renamed(code):
            table = cloudpickle.CloudPickler.dispatch_table
            return table[types.CodeType](code.replace(co_filename="<dynamic-code>"))

        class Renaming(cloudpickle.CloudPickler):
            dispatch_table = {**cloudpickle.CloudPickler.dispatch_table, types.CodeType: renamed}

        def outer():
            return lambda: 0
        for by in (None, types.SimpleNamespace(CloudPickler=Renaming)):
            function, _, _ = pickle.loads(pickling.pack_call(outer, [], {}, by=by))
            self.assertEqual([each.__code__.co_filename for each in (function, function())],
                             [outer.__code__.co_filename] * 2)
            self.assertEqual(function.__code__.co_firstlineno, outer.__code__.co_firstlineno)

    def test_the_program_whose_file_spawned_children_import(self):
        with mock.patch.dict(sys.modules, __main__=types.SimpleNamespace(__spec__=None)):
            self.assertEqual(pickling.main_program(), (None, None))  # a notebook
        spec = importlib.util.find_spec("json.tool")
        main = types.SimpleNamespace(__file__=spec.origin, __spec__=spec)
        with mock.patch.dict(sys.modules, __main__=main):
            self.assertEqual(pickling.main_program(), (spec.origin, "json.tool"))

    def test_all_ranks_are_sent_the_same_bytes(self):
        job = (b"context", bytes(1 << 20))
        found = listener.Listener(job, answers.Answers())
        self.addCleanup(found.close)
        for rank in range(2):
            with socket.socket(socket.AF_UNIX) as link:
                link.connect(found.path)
                worker.send(link, HELLO, worker.GREETING.pack(0, rank))
                connection = found.accept()
                connection.read()
                self.assertIs(connection._unsent[-1].obj, job[1])
                while connection.wants_to_write:
                    connection.write()
                    link.recv(1 << 20)
                connection.socket.close()


class Spark(unittest.TestCase):
    def test_addresses_are_indices_into_cuda_visible_devices(self):
        for given, owned, gpus in ((None, ["4", "5"], "4,5"), ("4,5", ["0", "1"], "4,5"),
                                   ("4,5,6", ["2", "0"], "6,4"), ("GPU-a, GPU-b", ["1"], "GPU-b")):
            with mock.patch.dict(os.environ):
                os.environ.pop("CUDA_VISIBLE_DEVICES", None)
                if given:
                    os.environ["CUDA_VISIBLE_DEVICES"] = given
                self.assertEqual(spark.visible(owned, len(owned)), gpus)

    def test_what_is_no_index_and_too_few_are_told(self):
        for given, owned, wanted, told in (("4,5", ["2"], 1, "GPU 2 .* not a valid index .*=4,5"),
                                           ("4,5", ["GPU-a"], 1, "GPU GPU-a"),
                                           ("", ["0"], 1, "not a valid index"),
                                           ("4,5", ["0"], 2, "2 GPUs are needed, .* assigned 1")):
            with mock.patch.dict(os.environ, CUDA_VISIBLE_DEVICES=given):
                with self.assertRaisesRegex(RuntimeError, told):
                    spark.visible(owned, wanted)

    def shown(self, *addresses_of):
        """The output on the driver's streams; each function turns the server's address into an
        address to use."""
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            server = spark_output.OutputServer("127.0.0.1")
        with server:
            for address_of in addresses_of:
                subprocess.run([sys.executable, "-c", TASK, repr(address_of(*server.address))],
                               check=True, timeout=60, capture_output=True)
        return out.getvalue(), err.getvalue()

    def test_output_of_a_task_goes_to_the_driver(self):
        self.assertEqual(self.shown(lambda *address: address),
                         ("a line\nan unfinished one", "an error\n"))

    def test_a_stranger_is_not_shown_and_a_lost_driver_does_not_end_the_task(self):
        self.assertEqual(self.shown(lambda host, port, _: (host, port, "guess"),
                                    lambda host, port, _: (host, port, "x" * 1000),
                                    lambda host, port, token: (host, 1, token)), ("", ""))


TASK = """import ast, sys
from muster.spark_output import to_driver
with to_driver(ast.literal_eval(sys.argv[1])):
    print("a line", flush=True)
    print("an error", file=sys.stderr)
    print("an unfinished one", end="")
"""


class NotSent(unittest.TestCase):
    def test_without_cloudpickle_functions_of_modules_can_be_sent(self):
        call = pickling.pack_call(os.path.join, ["a"], {}, by=pickle)
        self.assertEqual(pickle.loads(call), (os.path.join, ("a",), {}))
        with self.assertRaisesRegex(TypeError, "pip install cloudpickle"):
            pickling.pack_call(lambda: 0, [], {}, by=pickle)

    def test_an_exception_that_cannot_be_read_again_is_not_sent(self):
        class Lost(Exception):
            def __init__(self, one, two):
                super().__init__(one + two)
        self.assertIsNone(worker.packed_exception(Lost("one", "two")))
        self.assertIsNotNone(worker.packed_exception(KeyError("one")))


class Program(unittest.TestCase):
    def test_the_variable_comes_first_and_must_name_a_program(self):
        with mock.patch.dict(os.environ, MUSTER_BIN="/bin/true"):
            self.assertEqual(program.find(), "/bin/true")
        for wrong in ("/nowhere/muster", "/etc/passwd"):
            with mock.patch.dict(os.environ, MUSTER_BIN=wrong):
                with self.assertRaisesRegex(FileNotFoundError, wrong):
                    program.find()

    def test_beside_the_package_then_in_the_path(self):
        with tempfile.TemporaryDirectory() as folder:
            for prefix in ("wheel/bin", "path"):
                os.makedirs(os.path.join(folder, prefix))
                with open(os.path.join(folder, prefix, "muster"), "w", encoding="utf-8") as file:
                    os.chmod(file.fileno(), 0o755)
            package = os.path.join(folder, "wheel", "lib", "python3", "site-packages", "muster")
            beside = program.candidates(package)
            self.assertIn(os.path.join(folder, "wheel/bin/muster"), beside)
            path = os.path.join(folder, "path")
            with mock.patch.dict(os.environ, MUSTER_BIN="", PATH=path):
                with mock.patch.object(program, "candidates", lambda: beside):
                    self.assertEqual(program.find(), os.path.join(folder, "wheel/bin/muster"))
                with mock.patch.object(program, "candidates", lambda: []):
                    self.assertEqual(program.find(), os.path.join(path, "muster"))
            with mock.patch.dict(os.environ, MUSTER_BIN="", PATH=""):
                with mock.patch.object(program, "candidates", lambda: []):
                    with self.assertRaisesRegex(FileNotFoundError, "MUSTER_BIN"):
                        program.find()


if __name__ == "__main__":
    unittest.main(verbosity=2)
