# SPDX-License-Identifier: Apache-2.0
"""Real defects of one of two nodes on this machine, and how muster --check names them. Used by
test_check_defects.py and measure_checks.py."""

import contextlib
import dataclasses
import os
import subprocess
import pathlib
import re
import typing

from harness import eventually
from nodes import NEVER

CGROUPS = pathlib.Path("/sys/fs/cgroup")
HEALTHY_SMI = "0, Not Active, Not Active, Not Active, 4"
MEMORY_LIMIT = 2 << 30

# Runs a program after a command of the shell.
AFTER = ("sh", "-c", '{} && exec "$0" "$@"')


def after(command, *before):
    return (*before, *(word.format(command) for word in AFTER))


def in_mount_namespace(command):
    return after(command, "unshare", "--mount")


def fake_smi(folder, text, exit_code=0):
    """An environment in which nvidia-smi prints this text."""
    folder.mkdir(exist_ok=True)
    path = folder / "nvidia-smi"
    path.write_text(f"#!/bin/sh\n{text}\nexit {exit_code}\n")
    path.chmod(0o755)
    return {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"}


def remove(folder):
    with contextlib.suppress(OSError):
        folder.rmdir()
    return not folder.exists()


@contextlib.contextmanager
def cgroup(controller, **limits):
    """A prefix that starts a program in a new cgroup, of version 2 or 1. Skips without access."""
    v2 = (CGROUPS / "cgroup.controllers").exists()
    folder = (CGROUPS if v2 else CGROUPS / controller) / f"muster-test-{os.getpid()}"
    try:
        folder.mkdir()
    except OSError as error:
        raise Unavailable(f"needs write access to {folder.parent}") from error
    try:
        for name, value in limits["v2" if v2 else "v1"].items():
            (folder / name).write_text(str(value))
        yield after(f"echo $$ > {folder}/cgroup.procs")
    except FileNotFoundError as error:
        raise Unavailable(f"the cgroup has no controller '{controller}'") from error
    finally:
        eventually(lambda: remove(folder), "the cgroup is empty")


class Unavailable(Exception):
    """This defect cannot be made here."""


@dataclasses.dataclass
class Defect:
    """`make` gets the test's folder and the log folder, and returns the second node's prefix and
    environment."""
    name: str
    text: str  # a regular expression
    make: typing.Callable
    needs_root: bool = False
    needs_smi: bool = False  # the first node has GPUs

    def is_named(self, lines):
        """Whether the second node is named for this defect, and no other node or link. A small
        /dev/shm has little free space, too."""
        named = [line for line in lines if names_a_node(line)]
        return all(re.match(r"node .* \(1\): ", line) for line in named) and any(
            re.search(rf" \(1\): {self.text}$", line) for line in named)


def names_a_node(line):
    """On a busy machine, not everything is measured in time."""
    return not line.startswith("not measured: ")


def limit(name, option, text):
    return Defect(name, text, lambda folder, logs: contextlib.nullcontext(
        (("prlimit", option), {})))


def mounted(name, where, options, text, then="true"):
    """A file system of memory, mounted at {logs} or elsewhere."""
    def make(_folder, logs):
        place = where.format(logs=logs)
        return contextlib.nullcontext((in_mount_namespace(
            f"mount -t tmpfs -o {options} none {place} && {then.format(logs=logs)}"), {}))
    return Defect(name, text, make, needs_root=True)


def in_cgroup(name, text, controller, v1, v2):
    @contextlib.contextmanager
    def make(_folder, _logs):
        with cgroup(controller, v1=v1, v2=v2) as prefix:
            yield prefix, {}
    return Defect(name, text, make, needs_root=True)


def shifted(name, seconds, text):
    @contextlib.contextmanager
    def make(_folder, _logs):
        linked = subprocess.run(["ldd", os.environ["MUSTER_BIN"]], capture_output=True, text=True)
        if linked.returncode != 0 or "libasan" in linked.stdout:
            raise Unavailable("muster is static or has a sanitizer, so its clock cannot be shifted")
        yield (), {"LD_PRELOAD": os.environ["MUSTER_SHIFTED_CLOCK"],
                   "SHIFT_SECONDS": str(seconds)}
    return Defect(name, text, make)


def with_gpu(name, line, text):
    return Defect(name, text, lambda folder, logs: contextlib.nullcontext(
        ((), fake_smi(folder / "bad-gpu", f"echo '{line}'"))), needs_smi=True)


CPUS = len(os.sched_getaffinity(0))
DEFECTS = [
    in_cgroup("CPU quota", rf"usable CPUs 1, the median is {CPUS}", "cpu",
              {"cpu.cfs_period_us": 100000, "cpu.cfs_quota_us": 50000},
              {"cpu.max": "50000 100000"}),
    Defect("CPU affinity", rf"usable CPUs 1, the median is {CPUS}",
           lambda folder, logs: contextlib.nullcontext((("taskset", "-c", "0"), {}))),
    in_cgroup("memory limit", r"available memory [12]\.\d GiB, the median is [\d.]+ GiB", "memory",
              {"memory.limit_in_bytes": MEMORY_LIMIT}, {"memory.max": MEMORY_LIMIT}),
    mounted("small /dev/shm", "/dev/shm", "size=64m",
            "size of /dev/shm 64 MiB, the minimum is 128 MiB"),
    mounted("smaller /dev/shm than the others", "/dev/shm", "size=1g",
            r"size of /dev/shm 1.0 GiB, the median is [\d.]+ GiB"),
    mounted("full /dev/shm", "/dev/shm", "size=200m",
            "free space in /dev/shm 10 MiB, the minimum is 64 MiB",
            "head -c 190M /dev/zero > /dev/shm/x"),
    mounted("full disk", "{logs}", "size=20m",
            r"free disk space for logs \d+ MiB, the minimum is 100 MiB"),
    mounted("no free inodes", "{logs}", "size=200m,nr_inodes=100",
            r"free inodes for logs \d+, the minimum is 1000"),
    limit("few open files", "--nofile=256:", "limit of open files 256, the minimum is 1024"),
    limit("few processes", "--nproc=100:", "limit of processes 100, the minimum is 256"),
    in_cgroup("few processes by cgroup", "limit of processes 150, the minimum is 256", "pids",
              {"pids.max": 150}, {"pids.max": 150}),
    limit("little locked memory", "--memlock=65536:",
          r"limit of locked memory 64 KiB, the median is .*"),
    shifted("clock ahead", 3, r"the clock is (2\.9|3\.\d) s ahead of the other nodes"),
    shifted("clock behind", -3600, r"the clock is (3599\.\d|3600\.0) s behind the other nodes"),
    with_gpu("GPU memory errors", "2, Not Active, Not Active, Not Active, 4",
             "uncorrected GPU memory errors 2, the maximum is 0"),
    with_gpu("throttled GPU", "0, Not Active, Active, Not Active, 4",
             "throttled GPUs 1, the maximum is 0"),
    with_gpu("GPU memory in use", "0, Not Active, Not Active, Not Active, 30000",
             "GPU memory in use 29.3 GiB, the maximum is 1.0 GiB"),
    Defect("missing GPU", "usable GPUs 0, the median is 1",
           lambda folder, logs: contextlib.nullcontext(
               ((), fake_smi(folder / "bad-gpu", "echo No devices were found"))), needs_smi=True),
]


class Fleet:
    """Two nodes with --check, of which the second may have a defect."""

    def __init__(self, case):
        self.case = case

    def run(self, defect=None):
        """The lines about the check on the first node."""
        if defect and defect.needs_root and os.geteuid() != 0:
            raise Unavailable("needs root")
        folder = self.case.folder
        logs = folder / "logs"
        logs.mkdir(exist_ok=True)
        smi = fake_smi(folder / "good-gpu", f"echo '{HEALTHY_SMI}'")
        make = defect.make(folder, logs) if defect else contextlib.nullcontext(((), {}))
        with make as (prefix, env):
            job = self.case.cluster("2", conf=NEVER, options=["--check", f"--log-dir={logs}",
                                                              "--no-python"])
            needs_smi = defect is not None and defect.needs_smi
            first, = job.start_all(1, env=smi if needs_smi else None, program="true")
            second = job.start(2, env=env, popen={"prefix": tuple(prefix)}, program="true")
            ended = first.end()
            second.end()
        lines = [line for line in ended.err.splitlines() if "check: " in line]
        return [line.partition("check: ")[2] for line in lines]
