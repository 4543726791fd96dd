# SPDX-License-Identifier: Apache-2.0
"""Programs that hang (kinds.py) under the real launcher: its verdict must name the right rank and
cause, and it must do what --on-hang specifies. It must report nothing about programs that are only
slow. `python3 test_hangs.py --table` prints the report about each kind. MUSTER_BIN is the path of
the launcher, MUSTER_COLLECTIVE_LIBRARY of the library, HANGS_LIBRARY of hangs.cpp; PYTHONPATH
contains the package. MUSTER_TORCH: an interpreter that has PyTorch, with py-spy next to it; without
it, the kinds are skipped."""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

import kinds
sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "support"))
from cases import FolderCase, kill_at_end, spawn  # noqa: E402, F401: for test modules

MUSTER = os.environ["MUSTER_BIN"]
HERE = pathlib.Path(__file__).parent
DEADLINE = 120.0
LIMIT = "1"
HUNG = 124


TORCH = os.environ.get("MUSTER_TORCH", "")


def environment(scratch, python=""):
    path = os.pathsep.join(filter(None, [os.path.dirname(TORCH), os.environ["PATH"]]))
    return {**os.environ, "PATH": path, "SCRATCH": scratch, "PYTHON_EXEC": python or sys.executable,
            "PYTHONDONTWRITEBYTECODE": "1", "MUSTER_TORCH_BACKEND": "python",
            "GLOO_SOCKET_IFNAME": "lo"}


def start(scratch, ranks, options, file, *words, python="", **more):
    return subprocess.Popen(
        [MUSTER, f"--nproc-per-node={ranks}", f"--log-dir={scratch}/logs", "--tee=3",
         "--shutdown-timeout=1", *options, str(HERE / file), *words],
        env=environment(scratch, python), text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        **more)


class Ended:
    def __init__(self, code, out, err, scratch):
        self.code, self.out, self.err = code, out, err
        found = sorted(pathlib.Path(scratch).glob("logs/*/hang/*/verdict.json"))
        self.verdicts = [json.loads(path.read_text()) for path in found]

    def __str__(self):
        return f"code {self.code}\n--- out\n{self.out}--- err\n{self.err}"


def run(ranks, options, file, *words, **more):
    more.setdefault("stdin", subprocess.DEVNULL)
    with tempfile.TemporaryDirectory() as scratch:
        with start(scratch, ranks, options, file, *words, **more) as job:
            try:
                out, err = job.communicate(timeout=DEADLINE)
            except subprocess.TimeoutExpired:
                job.kill()
                out, err = job.communicate()
                err += "\nno verdict within the deadline\n"
        return Ended(job.returncode, out, err, scratch)


def run_kind(name):
    """With a standard input that stays open and silent."""
    read, write = os.pipe()
    try:
        kind = kinds.KINDS[name]
        return run(kind.ranks, [f"--hang-timeout={LIMIT}", "--on-hang=stop"], "kinds.py", name,
                   stdin=read, python=TORCH if kind.torch else "")
    finally:
        os.close(read)
        os.close(write)


def problem_with(name, ended):
    """The error in the verdict about a kind; None if it is correct."""
    kind = kinds.KINDS[name]
    if len(ended.verdicts) != 1:
        return f"{len(ended.verdicts)} verdicts"
    verdict = ended.verdicts[0]
    if not verdict["ranks"] or verdict["ranks"][0] not in kind.blamed:
        return f"blames {verdict['ranks']}, not {kind.blamed}"
    if verdict["cause"] not in kind.causes:
        return f"says {verdict['cause']}, not {kind.causes}"
    if kind.words not in verdict["reason"]:
        return f"does not say '{kind.words}': {verdict['reason']}"
    return None if ended.code == HUNG else f"code {ended.code}"


def missing(kind):
    if kind.needs.startswith("/") and not (os.geteuid() == 0 and os.path.exists(kind.needs)):
        return f"needs root and {kind.needs}"
    if kind.torch and not TORCH:
        return "there is no current PyTorch (MUSTER_TORCH)"
    if not shutil.which("py-spy", path=environment("")["PATH"]):
        return "py-spy is not there"
    return "" if shutil.which("eu-stack") else "eu-stack is not there (package elfutils)"


class Kinds(unittest.TestCase):
    """One test per kind: test_sleep, test_stopped, ..."""


def add_kind(name):
    def test(self):
        reason = missing(kinds.KINDS[name])
        if reason:
            self.skipTest(reason)
        ended = run_kind(name)
        self.assertIsNone(problem_with(name, ended), str(ended))
        block = [line for line in ended.err.splitlines() if "hang: " in line]
        self.assertTrue(block, str(ended))
    setattr(Kinds, "test_" + name, test)


for each in kinds.KINDS:
    add_kind(each)


def table():
    """`after`: seconds from the limit to the verdict."""
    right = 0
    names = sys.argv[2:] or list(kinds.KINDS)
    print(f"{'kind':26} {'right':6} {'cause':22} {'rank':5} {'after':6} said")
    for name in names:
        ended = run_kind(name)
        problem = problem_with(name, ended)
        right += problem is None
        verdict = ended.verdicts[0] if ended.verdicts else {
            "ranks": [], "cause": "-", "reason": str(ended), "quiet": 0, "limit": 0}
        print(f"{name:26} {'yes' if problem is None else 'NO':6} {verdict['cause']:22} "
              f"{','.join(map(str, verdict['ranks'])):5} "
              f"{verdict['quiet'] - verdict['limit']:<6.1f} {verdict['reason']}"
              + (f"   <- {problem}" if problem else ""), flush=True)
    print(f"{right} of {len(names)} right")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--table"]:
        table()
    else:
        unittest.main()
