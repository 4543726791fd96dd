# SPDX-License-Identifier: Apache-2.0
"""Code shared by the tests of muster --restart=rank: jobs, their processes and their events."""
import json
import os
import pathlib
import subprocess
import sys

import support
import cases
from support import DEADLINE, MUSTER, environment


class ElasticCase(support.FolderCase):
    """The workers are functions in the test's own file, as in support.JobCase. The job runs while
    the test acts on it. FOLDER: the test's folder, for workers."""

    ranks = 3

    def job(self, name, *options, **variables):
        file = sys.modules[type(self).__module__].__file__
        return self.launch([file, name], *options, **variables)

    def launch(self, program, *options, **variables):
        args = [MUSTER, f"--nproc-per-node={self.ranks}", "--restart=rank", *options, *program]
        return cases.spawn(self, args, text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                           stderr=subprocess.PIPE,
                           env=environment(FOLDER=self.folder, **variables))

    def end(self, job, code=0):
        out, err = job.communicate(timeout=DEADLINE)
        self.assertEqual(job.returncode, code, out + err)
        return out, err

    def events(self, logs, name):
        lines = [json.loads(line) for path in pathlib.Path(logs).rglob("events.jsonl")
                 for line in path.read_text().splitlines()]
        return [line for line in lines if line["event"] == name]

    @staticmethod
    def agent(job):
        return int(pathlib.Path(f"/proc/{job.pid}/task/{job.pid}/children").read_text().split()[0])

    def descriptors(self, job):
        return len(os.listdir(f"/proc/{self.agent(job)}/fd"))

    def workers(self, job):
        agent = self.agent(job)
        text = pathlib.Path(f"/proc/{agent}/task/{agent}/children").read_text()
        return [int(pid) for pid in text.split()]
