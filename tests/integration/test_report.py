# SPDX-License-Identifier: Apache-2.0
"""The report after a failure, as text and as JSON; none after success."""

import json
import os
import pathlib

from harness import Ended, Job, JobCase

RAISES = """import sys
def compute(step):
    raise ValueError(f"boom at step {step}")
print("loading", file=sys.stderr)
compute(3)
"""
# What torch's `record` leaves behind, without torch.
RECORDS = """import json, os, sys, time, traceback
try:
    raise RuntimeError("recorded boom")
except RuntimeError as error:
    with open(os.environ["TORCHELASTIC_ERROR_FILE"], "w") as file:
        json.dump({"message": {"message": f"RuntimeError: {error}", "extraInfo": {
            "py_callstack": traceback.format_exc(), "timestamp": str(int(time.time()))}}}, file)
    sys.exit(1)
"""


class Report(JobCase):
    def test_an_undecorated_script_shows_its_traceback_once_in_few_lines(self):
        ended = self.run_job(self.python(RAISES), code=1)
        report = ended.err[ended.err.index("muster: "):]
        lines = report.splitlines()
        self.assertLessEqual(len(lines), 15, report)
        self.assertTrue(lines[0].endswith("script.py: rank 0 exited with code 1"), report)
        self.assertRegex(lines[1], rf"^  node {os.uname().nodename}, local rank 0, pid \d+$")
        self.assertEqual(lines[2], "  | Traceback (most recent call last):")
        self.assertEqual(lines[-1], "  | ValueError: boom at step 3")

    def test_a_missing_module_shows_the_path_of_the_python_that_ran(self):
        script = self.python("import no_such_module\n")
        env = {**os.environ, "PATH": "/no/such/folder:/usr/bin:/bin"}
        env.pop("VIRTUAL_ENV", None)
        ended = self.run_job(script, env=env, code=1)
        self.assertIn("\n  hint: the worker ran with /usr/bin/python3; ", ended.err)

    def test_the_same_traceback_of_many_ranks_is_printed_once_with_a_count(self):
        # All fail: they wait for each other, and ignore the request to stop.
        script = self.python(
            "import os, pathlib, signal, sys, time\n"
            "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
            "folder = pathlib.Path(sys.argv[1])\n"
            "(folder / ('up' + os.environ['RANK'])).touch()\n"
            "while len(list(folder.glob('up*'))) < 4: time.sleep(0.002)\n" + RAISES)
        ended = self.run_job("--nproc-per-node", 4, script, self.folder, code=1)
        report = ended.err[ended.err.rindex("muster: "):]
        self.assertEqual(report.count("ValueError: boom at step 3"), 1, report)
        self.assertRegex(report, r"  3 other ranks failed after it: .* the same traceback")

    def test_the_error_file_of_a_decorated_script_is_read_and_handed_on(self):
        mine = self.folder / "mine.json"
        ended = self.run_job(self.python(RECORDS),
                             env=dict(os.environ, TORCHELASTIC_ERROR_FILE=str(mine)), code=1)
        self.assertIn("  | RuntimeError: recorded boom", ended.err)
        message = json.loads(mine.read_text())["message"]
        self.assertEqual(message["message"], "RuntimeError: recorded boom")
        self.assertEqual(message["errorCode"], 1)
        self.assertIn("recorded boom", message["extraInfo"]["py_callstack"])

    def test_a_failure_without_an_error_file_is_handed_on_too(self):
        mine = self.folder / "mine.json"
        self.run_job(*self.puppets(1, "signal", "11"),
                     env=dict(os.environ, TORCHELASTIC_ERROR_FILE=str(mine)), code=139)
        message = json.loads(mine.read_text())["message"]
        self.assertEqual(message["errorCode"], -11)
        self.assertIn("SIGSEGV", message["message"])

    def test_a_rank_that_closes_its_group_before_it_ends_is_named(self):
        # Rank 1 raises, closes its connection, and exits after rank 0, which lost the connection:
        # rank 1 waits until rank 0 is a zombie or reaped. The report names rank 1 and shows what
        # rank 0 printed.
        os.mkfifo(self.folder / "fifo")
        ended = self.run_job(*self.by_rank(
            "echo $$ > $DIR/fifo; echo 'RuntimeError: Connection closed by peer' >&2; exit 1",
            "read pid < $DIR/fifo\n"
            "while read _ _ state _ 2> /dev/null < /proc/$pid/stat && [ $state != Z ]; do :; done\n"
            "echo 'ValueError: bad batch 17' >&2; exit 7",
            "exec $PUPPET wait"), code=7)
        report = ended.err[ended.err.rindex("muster: "):]
        self.assertIn("rank 1 exited with code 7", report)
        self.assertIn("  | ValueError: bad batch 17", report)
        self.assertIn("  1 other rank failed after it: 0", report)
        self.assertIn("  | rank 0: RuntimeError: Connection closed by peer", report)

    def test_hidden_marks_of_workers_stay_out_of_report_and_json(self):
        # C1 (CSI as one character), a right-to-left override, and a byte that is not valid UTF-8.
        logs = self.folder / "logs"
        ended = self.run_job(*self.by_rank(
            r"printf 'a\302\2331mb\342\200\256c\233d\033[1m\n' >&2; exit 7",
            options=["--log-dir", logs]), code=7)
        self.assertIn("  | a1mbc\\x9bd[1m\n", ended.err[ended.err.rindex("muster: "):])
        text = next(logs.glob("*/report.json")).read_text()
        self.assertEqual(json.loads(text)["root_cause"]["exit_code"], 7)
        for mark in ("\x9b", "\u202e", "\x1b"):
            self.assertNotIn(mark, text)

    def test_names_that_are_not_utf8_are_escaped_everywhere(self):
        script = os.fsencode(self.folder) + b"/tr\xe4iner.sh"
        with open(script, "wb") as file:
            file.write(b"#!/bin/sh\necho caf\xe9 >&2; exit 7\n")
        os.chmod(script, 0o755)
        logs = os.fsencode(self.folder) + b"/l\xf6gs"
        ended = self.run_bytes(b"--nproc-per-node=1", b"--log-dir=" + logs, b"--no-python", script)
        self.assertEqual(ended.code, 7, ended)
        self.assertIn(b"caf\xe9\n", ended.error_bytes)  # the worker's own line stays unchanged
        report = ended.error_bytes[ended.error_bytes.index(b"muster: "):].decode()
        self.assertIn(r"/tr\xe4iner.sh: rank 0 exited with code 7", report)
        self.assertIn(r"  | caf\xe9", report)
        self.assertIn(r"/l\xf6gs/", report)
        run_dir, = pathlib.Path(os.fsdecode(logs)).iterdir()
        written = json.loads((run_dir / "report.json").read_text())
        self.assertEqual(written["program"], f"{self.folder}/tr\\xe4iner.sh")
        self.assertEqual(written["root_cause"]["stderr_tail"], "caf\\xe9\n")
        events = [json.loads(line) for line in (run_dir / "events.jsonl").read_text().splitlines()]
        self.assertIn(f"{self.folder}/tr\\xe4iner.sh", [event.get("program") for event in events])

    def test_names_that_are_not_utf8_are_escaped_in_errors(self):
        missing = os.fsencode(self.folder) + b"/\xe4\x1b[31m"
        script = os.fsencode(self.python(""))
        for args in ((b"--no-python", missing), (b"--config=/\xe4", script),
                     (b"--log-dir=/dev/full/\xe4", b"--tee=3", script),
                     (b"--nproc-per-node=\xe4", script), (b"/\xe4.py",)):
            ended = self.run_bytes(*args)
            said = ended.error_bytes.decode()  # it is UTF-8
            self.assertIn(r"\xe4", said)
            self.assertNotIn("\x1b", said)
            self.assertNotEqual(ended.code, 0, ended)

    def run_bytes(self, *args):
        job = Job(list(args))
        self.addCleanup(job.__exit__)
        out, err = job.process.communicate(timeout=60)
        ended = Ended(job.process.returncode, out, err, 0)
        ended.error_bytes = err
        return ended

    def test_peers_that_we_stopped_are_no_failures(self):
        ended = self.run_job(*self.by_rank(
            "exec $PUPPET touch $DIR/a wait", "exec $PUPPET touch $DIR/b wait",
            "exec $PUPPET wait-file $DIR/a wait-file $DIR/b exit 9"), code=9)
        self.assertIn("rank 2 exited with code 9", ended.err)
        self.assertNotIn("failed after it", ended.err)
        self.assertNotIn("SIGTERM", ended.err)

    def test_json_beside_the_logs_says_the_same(self):
        logs = self.folder / "logs"
        ended = self.run_job(*self.by_rank(
            "exec $PUPPET wait", "echo last line >&2; exit 9", options=["--log-dir", logs]))
        run_dir, = logs.iterdir()
        self.assertIn(f"  logs: {run_dir}\n", ended.err)
        report = json.loads((run_dir / "report.json").read_text())
        self.assertEqual((report["outcome"], report["exit_code"]), ("failed", 9))
        self.assertEqual(report["root_cause"]["rank"], 1)
        self.assertEqual(report["root_cause"]["stderr_tail"], "last line\n")
        self.assertEqual(report["other_failures"], [])

    def test_the_last_lines_of_a_redirected_stderr_are_shown_as_well(self):
        ended = self.run_job(*self.puppets(
            1, "warn", "into the file", "exit", "9",
            options=["--redirects", "2", "--log-dir", self.folder / "logs"]))
        self.assertIn("  | into the file\n", ended.err, ended)

    def test_hostile_error_files_do_no_harm(self):
        script = self.python(
            "import os, sys\npath = os.environ['TORCHELASTIC_ERROR_FILE']\n"
            "kind = sys.argv[1]\n"
            "if kind == 'fifo': os.mkfifo(path)\n"
            "elif kind == 'folder': os.mkdir(path)\n"
            "elif kind == 'zero': os.symlink('/dev/zero', path)\n"
            "elif kind == 'huge': open(path, 'wb').truncate(1 << 40)\n"
            "else: open(path, 'wb').write(b'{\"message\": {\"message\": \"\\xff')\n"
            "sys.exit(6)\n")
        for kind in ("fifo", "folder", "zero", "huge", "torn"):
            ended = self.run_job(script, kind)
            self.assertEqual(ended.code, 6, f"{kind}: {ended}")
            self.assertIn("rank 0 exited with code 6", ended.err)

    def test_temporary_folders_do_not_pile_up(self):
        temporary = self.folder / "tmp"
        temporary.mkdir()
        for script in (RAISES, RECORDS, "print('fine')\n"):
            self.run_job("--max-restarts", 1, self.python(script),
                         env=dict(os.environ, TMPDIR=str(temporary)))
        self.assertEqual([str(path) for path in pathlib.Path(temporary).rglob("*")], [])

    def test_success_says_nothing(self):
        ended = self.run_job(self.python("print('fine')\n"))
        self.assertEqual((ended.code, ended.out, ended.err), (0, "fine\n", ""))
