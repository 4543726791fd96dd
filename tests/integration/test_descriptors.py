# SPDX-License-Identifier: Apache-2.0
"""The limit on open files: raised for the launcher, restored for the workers, and handled when
reached."""

import re
import resource
import unittest
from pathlib import Path

from harness import MUSTER, JobCase, limited, read

USUAL = 1024  # the soft limit on most machines
MANY = 499  # workers whose two streams need more descriptors than that


def limits_of(pid):
    found = re.search(r"Max open files\s+(\d+)\s+(\d+)", read(f"/proc/{pid}/limits"))
    soft, hard = found.groups()
    return int(soft), int(hard)


class Descriptors(JobCase):
    def limited(self, soft, hard, *args):
        return self.job(*args, preexec_fn=limited(resource.RLIMIT_NOFILE, soft, hard))

    def test_the_launcher_has_all_that_it_may_and_workers_have_what_the_user_had(self):
        job = self.limited(256, 2048, "--no-python", "sh", "-c",
                           f"ulimit -Sn; ulimit -Hn; touch {self.folder}/up; exec sleep 1000")
        self.wait_for("up")
        self.assertEqual(limits_of(job.agent()), (2048, 2048))
        job.kill(15)
        ended = job.end()
        self.assertEqual(ended.out, "256\n2048\n", ended)

    def many(self, hard):
        options = ["--tee=3", "--log-dir", str(self.folder / "logs")]
        ended = self.limited(USUAL, hard, *options, *self.puppets(
            MANY, "say", "out", "warn", "err", "exit", "0")).end(240)
        self.assertEqual(ended.code, 0, ended.err[:2000])
        for shown, word in ((ended.out, "out"), (ended.err, "err")):
            self.assertEqual(sorted(shown.splitlines()),
                             sorted(f"[default{rank}]:{word}" for rank in range(MANY)))

    def test_so_many_tee_d_workers_that_the_usual_limit_would_not_do(self):
        self.many(4 * USUAL)

    def test_where_it_cannot_be_raised_files_are_opened_only_to_be_read(self):
        self.many(USUAL)

    @unittest.skipIf(b"__ubsan_" in Path(MUSTER).read_bytes(),
                     "the sanitizer opens pipes itself, to see which memory can be read")
    def test_too_few_end_the_job_with_a_clear_line_and_no_restart(self):
        survived = 0
        for limit in (*range(8, 40, 3), 64):
            job = self.limited(limit, limit, "--max-restarts=3", *self.puppets(
                4, "say", "out", "warn", "err", "exit", "0"))
            ended = job.end()
            if ended.code == 0:
                survived += 1
                self.assertEqual(ended.out, "out\n" * 4, ended)
                continue
            self.assertEqual(ended.code, 70, (limit, str(ended)))
            self.assertIn(f"Too many open files; the limit is {limit} (ulimit -n)", ended.err)
            self.assertNotIn("restarting", ended.err)
            self.assert_nothing_left(job)
        self.assertGreater(survived, 0)
