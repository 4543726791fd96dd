# SPDX-License-Identifier: Apache-2.0
"""Which rank reads standard input: the debugger's rank, and no other."""

import os
import subprocess

from harness import JobCase, eventually


class StandardInput(JobCase):
    def test_without_a_terminal_all_ranks_read_end_of_file(self):
        job = self.job(*self.puppets(2, "stdin", "exit", "0"), stdin=subprocess.PIPE)
        # The pipe stays open and silent; no process may wait for it.
        self.assertEqual(job.process.wait(30), 0)

    def test_a_lone_worker_reads_what_is_piped_or_redirected(self):
        job = self.job(*self.puppets(1, "stdin", "exit", "0"), stdin=subprocess.PIPE)
        job.process.stdin.write(b"four")
        self.assertEqual(job.end().out, "read 4\n")
        (self.folder / "input").write_text("seven77")
        with (self.folder / "input").open() as stream:
            ended = self.run_job(*self.puppets(1, "stdin", "exit", "0"), stdin=stream)
        self.assertEqual((ended.out, ended.err), ("read 7\n", ""), ended)

    def unread(self, options=(), **kwargs):
        job = self.job(*self.puppets(2, "touch", self.folder / "up", "wait-file",
                                     self.folder / "go", "exit", "0", options=options), **kwargs)
        self.wait_for("up")
        return job

    def told(self, job):
        (self.folder / "go").touch()
        ended = self.wait_for_exit(job, 0)
        return ended.err.count("standard input has data, but no worker reads it")

    def test_several_workers_and_input_that_nobody_reads_is_told_once(self):
        job = self.unread(stdin=subprocess.PIPE)
        job.process.stdin.write(b"late\n")
        job.process.stdin.flush()
        job.stderr_until(b"standard input has data, but no worker reads it")
        job.process.stdin.write(b"more\n")
        self.assertEqual(self.told(job), 0)  # and not a second time
        (self.folder / "input").write_text("x")
        with (self.folder / "input").open() as stream:
            self.assertEqual(self.told(self.unread(stdin=stream)), 1)

    def test_input_that_is_empty_or_not_wanted_is_not_told(self):
        self.assertEqual(self.told(self.unread(stdin=subprocess.DEVNULL)), 0)
        self.assertEqual(self.told(self.unread(stdin=subprocess.PIPE)), 0)
        (self.folder / "input").write_text("x")
        with (self.folder / "input").open() as stream:
            self.assertEqual(self.told(self.unread(["--stdin-rank=none"], stdin=stream)), 0)

    def test_the_chosen_rank_reads_and_the_others_do_not(self):
        job = self.job(*self.by_rank(
            "read line; echo rank $LOCAL_RANK read $line",
            "read line; echo rank $LOCAL_RANK read $line",
            options=["--stdin-rank", "1"]), stdin=subprocess.PIPE)
        job.process.stdin.write(b"hello\n")
        job.process.stdin.flush()
        ended = self.wait_for_exit(job, 0)
        self.assertEqual(sorted(ended.out.splitlines()), ["rank 0 read", "rank 1 read hello"])

    def test_on_a_terminal_one_worker_has_it_and_pdb_works(self):
        script = self.python("value = 41\nbreakpoint()\nprint('went on')\n")
        master, slave = os.openpty()
        job = self.job(script, stdin=slave, stdout=slave, stderr=slave)
        os.close(slave)
        said = b""

        def hear(text):
            nonlocal said
            os.set_blocking(master, False)
            try:
                said += os.read(master, 65536)
            except (BlockingIOError, OSError):
                pass
            return text in said

        eventually(lambda: hear(b"(Pdb)"), "the debugger's prompt")
        os.write(master, b"p value + 1\n")
        eventually(lambda: hear(b"42"), "the debugger's answer")
        os.write(master, b"c\n")
        eventually(lambda: hear(b"went on"), "the script goes on")
        self.assertEqual(job.process.wait(30), 0, said)
        os.close(master)
