# SPDX-License-Identifier: Apache-2.0
"""Logs: layout, whole lines, and consoles that are slow or closed."""

import os
import re
import signal
import subprocess

from harness import JobCase, environment_without


class Output(JobCase):
    def logs(self):
        run_dir, = (self.folder / "logs").iterdir()
        return run_dir / "attempt_0"

    def test_by_default_lines_come_as_they_are_and_nothing_is_left_behind(self):
        temporary = self.folder / "tmp"
        temporary.mkdir()
        ended = self.run_job(*self.puppets(2, "say", "hello", "warn", "oh", "exit", "0"),
                             env=dict(os.environ, TMPDIR=str(temporary)))
        self.assertEqual((ended.code, ended.out, ended.err), (0, "hello\n" * 2, "oh\n" * 2))
        self.assertEqual(list(temporary.iterdir()), [])

    def test_redirect_and_tee_by_rank_write_the_files_of_the_contract(self):
        ended = self.run_job(*self.puppets(
            3, "say", "out", "warn", "err", "exit", "0",
            options=["--redirects", "0:1,1:2", "--tee", "2:3", "--log-dir", self.folder / "logs",
                     "--rdzv-id", "job7"]), code=0)
        run_dir, = (self.folder / "logs").iterdir()
        self.assertRegex(run_dir.name, r"^job7_.{8}$|^[0-9a-f-]+_.{8}$")
        files = sorted(str(path.relative_to(self.logs())) for path in self.logs().rglob("*.log"))
        self.assertEqual(
            files, ["0/stdout.log", "1/stderr.log", "2/stderr.log", "2/stdout.log"])
        self.assertEqual(sorted(ended.out.splitlines()), ["[default2]:out", "out"])
        self.assertEqual(sorted(ended.err.splitlines()), ["[default2]:err", "err"])

    def test_a_template_makes_the_prefix_and_ranks_have_any_number_of_digits(self):
        ended = self.run_job(*self.puppets(
            12, "say", "x", "exit", "0",
            options=["--tee", "11:1", "--redirects", "1", "--log-dir", self.folder / "logs",
                     "--log-line-prefix-template", "${role_name}/${rank}/${local_rank}> "]))
        self.assertEqual((ended.code, ended.out), (0, "default/11/11> x\n"), ended)

    def test_the_pid_in_a_prefix_is_the_writers_in_each_attempt(self):
        script = self.python("""
import os, sys
print(os.getpid())
print(os.getpid(), "err", file=sys.stderr)
sys.exit(os.environ["TORCHELASTIC_RESTART_COUNT"] == "0")
""")
        for options in (["-l"], ["--tee=3", "--duplicate-stdout-filters=",
                                 "--log-dir", self.folder / "logs"]):
            ended = self.run_job("--nproc-per-node=2", "--max-restarts=1", *options,
                                 "--log-line-prefix-template=${pid}/$pid:${role}:", script, code=0)
            own = re.compile(r"(\d+)/\1:\${role}:\1$")
            pids = [own.match(line)[1] for line in ended.out.splitlines()]
            self.assertIn(len(pids), (3, 4), ended)  # rank 1 may be stopped before it prints
            self.assertEqual(len(set(pids)), len(pids), ended)
            errors = re.findall(r"^(\d+)/\1:\${role}:\1 err$", ended.err, re.M)
            self.assertGreaterEqual(len(set(errors)), 3, ended)
            self.assertEqual(ended.err.count(" err"), len(errors), ended)
        filtered, = self.logs().parent.glob("attempt_1/filtered_stdout.log")
        lines = filtered.read_text().splitlines()
        self.assertEqual([bool(own.match(line)) for line in lines], [True] * 2, lines)

    def test_filtered_ranks_are_silent_and_their_files_are_written(self):
        ended = self.run_job(*self.puppets(
            2, "say", "x", "exit", "0",
            options=["--tee", "1", "--local-ranks-filter", "1", "--log-dir", self.folder / "logs"]))
        self.assertEqual((ended.code, ended.out), (0, "[default1]:x\n"), ended)
        self.assertEqual((self.logs() / "0" / "stdout.log").read_text(), "x\n")

    def test_duplicate_filters_gather_matching_lines_of_all_ranks(self):
        self.run_job(*self.puppets(
            2, "say", "loss 1", "say", "other", "exit", "0",
            options=["--tee", "3", "--duplicate-stdout-filters", "loss", "--log-dir",
                     self.folder / "logs"]), code=0)
        gathered = (self.logs() / "filtered_stdout.log").read_text().splitlines()
        self.assertEqual(sorted(gathered), ["[default0]:loss 1", "[default1]:loss 1"])

    def test_log_dir_null_makes_no_files(self):
        ended = self.run_job(*self.puppets(
            1, "getenv", "TORCHELASTIC_ERROR_FILE", "exit", "0",
            options=["--log-dir", "/dev/null", "--tee", "3"]))
        self.assertEqual((ended.code, ended.out, ended.err), (0, "[default0]:\n", ""), ended)

    def test_labels_need_no_files(self):
        temporary = self.folder / "tmp"
        temporary.mkdir()
        for options in (["-l"], ["--label", "--local-ranks-filter=0,1"],
                        ["--tee=3", "--log-dir=/dev/null"]):
            ended = self.run_job(*self.puppets(2, "say", "out", "warn", "err", "exit", "0",
                                               options=options),
                                 env=dict(os.environ, TMPDIR=str(temporary)), code=0)
            self.assertEqual(sorted(ended.out.splitlines()), ["[default0]:out", "[default1]:out"])
            self.assertEqual(sorted(ended.err.splitlines()), ["[default0]:err", "[default1]:err"])
            self.assertEqual(list(temporary.iterdir()), [])

    def test_lines_of_several_ranks_on_one_pipe_or_file_are_whole(self):
        # Each writes blocks that end in the middle of a line, like C and Python without a terminal.
        script = self.python("""
import os
rank = os.environ["RANK"]
text = "".join(f"{rank}:{number}:{rank * 50}\\n" for number in range(4000)).encode()
while text:
    os.write(1, text[:1000])
    text = text[1000:]
""")
        file = self.folder / "console"
        with file.open("wb") as stream:
            self.assertEqual(self.run_job("--nproc-per-node=4", script, stdout=stream).code, 0)
        piped = self.run_job("--nproc-per-node=4", script)
        self.assertEqual(piped.code, 0, piped.err)
        for shown in (piped.out, file.read_text()):
            expected = {f"{rank}:{number}:{str(rank) * 50}"
                        for rank in range(4) for number in range(4000)}
            lines = shown.splitlines()
            self.assertEqual((len(lines), set(lines) - expected), (16000, set()))

    ORDER = '''
import os, sys
for number in range(0, 2000, 2):
    os.write(2, b"%d\\n" % number)
    os.write(1, b"%d\\n" % (number + 1))
if len(sys.argv) > 1 and os.environ["RANK"] == "0":
    raise ValueError("the reason")
'''

    def shown_in_one(self, kind, *args):
        """Code and text of a job whose stdout and stderr are the same file or pipe."""
        if kind == "file":
            file = self.folder / "console"
            with file.open("wb") as stream:
                code = self.run_job(*args, stdout=stream, stderr=stream).code
            return code, file.read_text()
        job = self.job(*args, stderr=subprocess.STDOUT)
        out, _ = job.process.communicate(timeout=60)
        return job.process.returncode, out.decode()

    def test_output_and_error_in_one_place_come_in_the_order_in_which_they_were_written(self):
        script = self.python(self.ORDER)
        for kind in ("file", "pipe"):
            for ranks, options in ((1, []), (2, []), (2, ["-l"])):
                with self.subTest(kind, ranks=ranks, options=options):
                    code, shown = self.shown_in_one(
                        kind, "--nproc-per-node", ranks, *options, script)
                    self.assertEqual(code, 0, shown)
                    if ranks == 1 or options:
                        for rank in range(ranks):
                            prefix = f"[default{rank}]:" if options else ""
                            self.assertEqual(
                                [line for line in shown.splitlines() if line.startswith(prefix)],
                                [f"{prefix}{number}" for number in range(2000)])
                    else:
                        self.assertEqual(sorted(map(int, shown.split())),
                                         sorted([*range(2000), *range(2000)]))

    def test_a_traceback_comes_after_what_was_printed_before_and_is_in_the_report(self):
        script = self.python(self.ORDER)
        for ranks in (1, 2):
            code, shown = self.shown_in_one(
                "file", "--nproc-per-node", ranks, "-l", script, "fail")
            self.assertEqual(code, 1)
            lines = [line for line in shown.splitlines() if line.startswith("[default0]:")]
            self.assertEqual(lines[:2001], [f"[default0]:{number}" for number in range(2000)] +
                             ["[default0]:Traceback (most recent call last):"])
            self.assertIn("  | ValueError: the reason", shown)

    def test_streams_that_are_kept_apart_on_purpose_stay_apart(self):
        script = self.python(self.ORDER)
        _, shown = self.shown_in_one("file", "--redirects=2", "--log-dir", self.folder / "logs",
                                     script)
        self.assertEqual(shown.split(), [str(number) for number in range(1, 2000, 2)])
        ended = self.run_job(script)
        self.assertEqual(ended.out.split(), [str(number) for number in range(1, 2000, 2)])
        self.assertEqual(ended.err.split(), [str(number) for number in range(0, 2000, 2)])

    def test_a_lone_worker_feels_that_the_reader_of_both_streams_left(self):
        # Like `muster x.py 2>&1 | head`, where no process would read further output.
        job = self.job(*self.puppets(1, "say", "first", "wait-file", self.folder / "go",
                                     "lines", "200000", "touch", self.folder / "done", "exit", "0"),
                       stderr=subprocess.STDOUT)
        self.assertEqual(job.process.stdout.readline(), b"first\n")
        job.process.stdout.close()
        job.process.stdout = None
        (self.folder / "go").touch()
        self.assertIn(job.process.wait(30), (141, 99))
        self.assertFalse((self.folder / "done").exists())

    def test_the_report_has_the_reason_of_a_rank_that_is_not_shown(self):
        script = self.python(self.ORDER)
        for options in ([], ["-l"]):
            ended = self.run_job("--nproc-per-node=2", "--local-ranks-filter=1", *options, script,
                                 "fail", code=1)
            self.assertIn("  | ValueError: the reason", ended.err)
            self.assertIn("rank 0 exited with code 1", ended.err)
            before, _, _ = ended.err.partition("muster: ")
            self.assertNotIn("Traceback", before)
            self.assertNotIn("[default0]", ended.out + ended.err)

    def test_eight_ranks_of_ten_thousand_lines_lose_tear_and_glue_none(self):
        ended = self.run_job(*self.puppets(
            8, "mix", "10000", "put", "no newline", "signal", "9",
            options=["--tee", "1", "--log-dir", self.folder / "logs", "--shutdown-timeout", "60"]),
            timeout=120)
        self.assertEqual(ended.code, 137, ended.code)
        console = {}
        self.assertTrue(ended.bytes.endswith(b"\n"))
        for line in ended.bytes.split(b"\n")[:-1]:  # the garbage contains all other line breaks
            rank = re.match(rb"\[default(\d)\]:", line)
            self.assertTrue(rank, f"a line without a prefix: {line[:80]!r}")
            console.setdefault(int(rank[1]), []).append(line[rank.end():])
        finished = 0
        for rank in range(8):
            written = (self.logs() / str(rank) / "stdout.log").read_bytes()
            lines = written.removesuffix(b"\n").split(b"\n") if written else []
            self.assertEqual(console.get(rank, []), lines, f"rank {rank}")
            finished += written.endswith(b"no newline")
        self.assertGreaterEqual(finished, 1, "no rank came to its end")

    def test_a_console_that_closes_early_hurts_nobody(self):
        job = self.job(*self.puppets(
            2, "lines", "20000", "exit", "0",
            options=["--tee", "1", "--log-dir", self.folder / "logs"]))
        job.process.stdout.readline()  # head -1
        job.process.stdout.close()
        job.process.stdout = None
        ended = job.end()
        self.assertEqual((ended.code, ended.err), (0, ""), ended)
        for rank in range(2):
            log = (self.logs() / str(rank) / "stdout.log").read_text()
            self.assertEqual(log.count("\n"), 20000)

    def test_a_console_that_nobody_reads_does_not_hold_the_workers(self):
        job = self.job(*self.puppets(
            2, "lines", "20000", "touch", str(self.folder / "done"), "wait",
            options=["--tee", "1", "--log-dir", self.folder / "logs"]))
        self.wait_for("done")  # has written far more than fits into a pipe
        job.kill(signal.SIGTERM)
        self.assertEqual(job.process.wait(30), 143)

    def test_a_worker_without_a_reader_dies_of_its_pipe_as_under_a_shell(self):
        # Standard output is not copied by default, because the worker has inherited it.
        job = self.job(*self.puppets(1, "lines", "200000", "exit", "0"))
        job.process.stdout.readline()
        job.process.stdout.close()
        job.process.stdout = None
        ended = job.end()
        self.assertIn(ended.code, (141, 99), ended)

    def test_colours_only_on_a_terminal_and_not_against_no_color(self):
        plain = environment_without("NO_COLOR")
        for variables, coloured in ((plain, True), (dict(plain, NO_COLOR="1"), False)):
            master, slave = os.openpty()
            job = self.job(*self.puppets(1, "exit", "3"), env=variables, stderr=slave)
            os.close(slave)
            self.assertEqual(job.process.wait(30), 3)
            said = os.read(master, 65536)
            os.close(master)
            self.assertIn(b"rank 0 exited with code 3", said)
            self.assertEqual(b"\x1b[" in said, coloured, said)
        piped = self.run_job(*self.puppets(1, "exit", "3"))
        self.assertNotIn("\x1b", piped.err)
