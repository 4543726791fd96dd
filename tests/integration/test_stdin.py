# SPDX-License-Identifier: Apache-2.0
"""Who reads standard input: the debugger's rank, and nobody else."""

import os
import subprocess
import unittest

from harness import JobCase, eventually


class StandardInput(JobCase):
    def test_without_a_terminal_all_ranks_read_end_of_file(self):
        job = self.job(*self.puppets(2, "stdin", "exit", "0"), stdin=subprocess.PIPE)
        # The pipe stays open and silent: nobody may wait for it.
        self.assertEqual(job.process.wait(30), 0)

    def test_the_chosen_rank_reads_and_the_others_do_not(self):
        job = self.job(*self.by_rank(
            "read line; echo rank $LOCAL_RANK read $line",
            "read line; echo rank $LOCAL_RANK read $line",
            options=["--stdin-rank", "1"]), stdin=subprocess.PIPE)
        job.process.stdin.write(b"hello\n")
        job.process.stdin.flush()
        ended = job.end()
        self.assertEqual(ended.code, 0, ended)
        self.assertEqual(sorted(ended.out.splitlines()), ["rank 0 read", "rank 1 read hello"])

    def test_on_a_terminal_one_worker_has_it_and_pdb_works(self):
        script = self.python("value = 41\nbreakpoint()\nprint('went on')\n")
        master, slave = os.openpty()
        job = self.job(script, stdin=slave, stdout=slave, stderr=slave)
        os.close(slave)
        said = b""

        def hear(words):
            nonlocal said
            os.set_blocking(master, False)
            try:
                said += os.read(master, 65536)
            except (BlockingIOError, OSError):
                pass
            return words in said

        eventually(lambda: hear(b"(Pdb)"), "the debugger's prompt")
        os.write(master, b"p value + 1\n")
        eventually(lambda: hear(b"42"), "the debugger's answer")
        os.write(master, b"c\n")
        eventually(lambda: hear(b"went on"), "the script goes on")
        self.assertEqual(job.process.wait(30), 0, said)
        os.close(master)


if __name__ == "__main__":
    unittest.main()
