# SPDX-License-Identifier: Apache-2.0
"""musterctl profile with py-spy, and how it merges traces."""
import json
import os
import subprocess
import unittest

from test_hangs import MUSTER, FolderCase, environment, kill_at_end
from cases import eventually

CTL = os.environ["MUSTERCTL"]
DEADLINE = 60
PROGRAM = """
import os, time

def busy_function():
    return sum(range(10000))

rank = os.environ["RANK"]
open(os.environ["SCRATCH"] + "/up" + rank, "w").close()
while not os.path.exists(os.environ["SCRATCH"] + "/finish"):
    busy_function()
"""


class Case(FolderCase):
    def start(self, *command):
        program = self.folder / "train.py"
        program.write_text(PROGRAM)
        self.job = kill_at_end(self, subprocess.Popen(
            [MUSTER, "--nproc-per-node=2", *(command or (str(program),))],
            env=environment(str(self.folder), ""), stdin=subprocess.DEVNULL))
        eventually(lambda: (self.folder / "up1").exists(), "the ranks run")

    def finish(self):
        (self.folder / "finish").touch()
        self.assertEqual(self.job.wait(timeout=DEADLINE), 0)

    def profile(self, *options, code=0):
        done = subprocess.run([CTL, "profile", *options], capture_output=True, text=True,
                              timeout=DEADLINE, cwd=self.folder)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done

    def load(self, path):
        return json.loads((self.folder / path).read_text())


class PySpy(Case):
    def test_all_ranks(self):
        self.start()
        done = self.profile("--pid", str(self.job.pid), "--seconds=1", "--out=traces")
        self.finish()
        paths = [f"traces/{name}.speedscope.json" for name in ("rank_0", "rank_1", "merged")]
        self.assertEqual(done.stdout.splitlines(), paths)
        merged = self.load(paths[2])
        self.assertEqual({one["name"].split(":")[0] for one in merged["profiles"]},
                         {"rank 0", "rank 1"})
        frames = merged["shared"]["frames"]
        for one in merged["profiles"]:
            leaves = [frames[stack[-1]]["name"] for stack in one["samples"] if stack]
            self.assertIn("busy_function", leaves, one["name"])

    def test_other_programs_are_named(self):
        script = self.folder / "sleeps"
        script.write_text('#!/bin/sh\ntouch "$SCRATCH/up$RANK"\n'
                          'while [ ! -e "$SCRATCH/finish" ]; do sleep 0.1; done\n')
        script.chmod(0o755)
        self.start("--no-python", str(script))
        done = self.profile("0", "--pid", str(self.job.pid), "--seconds=1", code=1)
        self.assertIn("musterctl: error: rank 0: ", done.stderr)
        self.assertIn("and no --warm), and py-spy records only Python", done.stderr)
        done = self.profile("7", "--pid", str(self.job.pid), "--seconds=1", code=1)
        self.assertIn("rank 7 does not run on this host", done.stderr)
        self.finish()


class Merge(Case):
    def write(self, name, value):
        (self.folder / name).write_text(value if isinstance(value, str) else json.dumps(value))

    def test_traces(self):
        def trace(base, gpu):
            return {"baseTimeNanoseconds": base, "traceEvents": [
                {"ph": "X", "name": "a", "pid": 70, "tid": 1, "ts": 10.5, "dur": 1},
                {"ph": "s", "id": 5, "pid": 70, "tid": 1, "ts": 10.5, "name": "ac2g"},
                {"ph": "f", "id": 5, "pid": gpu, "tid": 7, "ts": 11.5, "name": "ac2g", "bp": "e"},
                {"ph": "M", "name": "process_name", "pid": 70, "ts": 0, "args": {"name": "python"}},
                {"ph": "M", "name": "process_sort_index", "pid": gpu, "ts": 0,
                 "args": {"sort_index": 5000000 + gpu}}], "traceName": "x"}
        self.write("rank_0.json", trace(1000000, 0))
        self.write("rank_10.json", trace(3000000, 0))
        self.write("rank_x.json", "not a trace of a rank")
        self.write("rank_0_77.json", "not complete, since it still has Kineto's name")
        done = self.profile("--merge", ".")
        self.assertEqual(done.stdout, "./merged.json\n")
        merged = self.load("merged.json")
        self.assertEqual(merged["baseTimeNanoseconds"], 1000000)
        events = merged["traceEvents"]
        self.assertEqual([(one["name"], one["ts"]) for one in events if one["ph"] == "X"],
                         [("a", 10.5), ("a", 2010.5)])
        self.assertEqual([one["id"] for one in events if one["ph"] in "sf"],
                         [5, 5, 10 * 2 ** 29 + 5, 10 * 2 ** 29 + 5])
        self.assertEqual([one["args"]["name"] for one in events if "name" in one.get("args", {})],
                         ["rank 0: python", "rank 10: python"])
        self.assertEqual(len({one["pid"] for one in events}), 4)

    def test_broken_traces(self):
        self.write("rank_0.json", {"traceEvents": []})
        done = self.profile("--merge", ".", code=1)
        self.assertIn("does not contain traces of several ranks", done.stderr)
        for text in ("", "{", '{"traceEvents": [{"pid": 1', "[]", "5", '{"other": []}',
                     '{"traceEvents": [{"ph": "M", "name": "process_name", "args": 5}]}'):
            self.write("rank_1.json", text)
            done = self.profile("--merge", ".", code=1)
            self.assertIn("rank_1.json is not a complete trace", done.stderr)
            self.assertEqual({path.name for path in self.folder.iterdir()},
                             {"rank_0.json", "rank_1.json"})

    def test_broken_speedscopes(self):
        whole = {"shared": {"frames": [{"name": "f"}]},
                 "profiles": [{"name": "main", "type": "sampled", "samples": [[0]]}]}
        self.write("rank_0.speedscope.json", whole)
        for text in ("{", '{"shared": {"frames": []}, "profiles": [5]}',
                     '{"shared": {"frames": []}, "profiles": [{"samples": [["x"]]}]}'):
            self.write("rank_1.speedscope.json", text)
            done = self.profile("--merge", ".", code=1)
            self.assertIn("rank_1.speedscope.json is not a complete trace", done.stderr)

    def test_usage(self):
        for options in ((), ("--steps=1", "--seconds=1"), ("--steps=0",), ("--steps=x",),
                        ("--seconds=0",), ("--seconds=2h",), ("--merge=.", "--steps=1"), ("x",)):
            self.profile(*options, code=2)


if __name__ == "__main__":
    unittest.main()
