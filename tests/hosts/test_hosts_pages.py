# SPDX-License-Identifier: Apache-2.0
"""The commands in README.md and docs/platforms.md for platforms whose machines may have separate
homes. Each command runs as printed, on two hosts with separate homes and the platform's variables.
Only the program and the placeholders HOST and N are replaced."""

import contextlib
import pathlib
import re
import shlex
import shutil
import tempfile

from hosts import HostsCase
from nodes import WORKER

ROOT = pathlib.Path(__file__).resolve().parents[2]
MEMORY = "/dev/shm"  # a home on a container's own layer would not be used
GUESTS = "have no shared secret"
NO_TOKEN = "because it has no token"

# For each row: the names of two machines and the variables that the platform sets on each. {first}
# is the first name, {first_ip} and {second_ip} are the addresses, {index} is 0 or 1.
MASTER = {"MASTER_ADDR": "{first}", "MASTER_PORT": "2222"}
POD = {"KUBERNETES_SERVICE_HOST": "10.3.0.1", "KUBERNETES_SERVICE_PORT": "443"}
DOMAIN = ".train.default.svc.cluster.local"
PLATFORMS = {
    "plain": (("vm1", "vm2"), {}),
    "google": (("cmle-training-master-0", "cmle-training-worker-0"),
               {**MASTER, "CLOUD_ML_JOB_ID": "123", "WORLD_SIZE": "2", "RANK": "{index}"}),
    "bare": (("vm1", "vm2"), {**MASTER, "WORLD_SIZE": "2", "RANK": "{index}"}),
    "ailines": (("task-0", "task-1"), {**MASTER, "WORLD_SIZE": "4", "WORKER_PER_NODE": "2",
                                       "NODE_RANK": "{index}"}),
    "hpc-pack": (("node02", "node03"), {"CCP_JOBID": "15317", "CCP_TASKID": "1",
                                        "CCP_NODES": "1 {name} 80"}),
    "azure-batch": (("b1", "b2"), {"AZ_BATCH_JOB_ID": "j",
                                   "AZ_BATCH_MASTER_NODE": "{first_ip}:6000",
                                   "AZ_BATCH_HOST_LIST": "{first_ip},{second_ip}"}),
    "pai-dlc": (("dlc-master-0", "dlc-worker-0"), {**MASTER, "WORLD_SIZE": "2", "RANK": "{index}",
                                                   "NPROC_PER_NODE": "2"}),
    "runpod": (("pod-a", "pod-b"), {"PRIMARY_ADDR": "{first_ip}", "PRIMARY_PORT": "29400",
                                    "NUM_NODES": "2", "NODE_RANK": "{index}", "NUM_TRAINERS": "2"}),
    "skypilot": (("sky-head", "sky-worker1"), {"SKYPILOT_NODE_IPS": "{first_ip}\n{second_ip}",
                                               "SKYPILOT_NUM_NODES": "2",
                                               "SKYPILOT_NODE_RANK": "{index}"}),
    "dstack": (("ds0", "ds1"), {"DSTACK_MASTER_NODE_IP": "{first_ip}", "DSTACK_NODES_NUM": "2",
                                "DSTACK_NODE_RANK": "{index}"}),
    "kubeflow": (("train-0", "train-1"), {**POD, "PET_NNODES": "2", "PET_NODE_RANK": "{index}",
                                          "PET_MASTER_ADDR": "{first}" + DOMAIN,
                                          "PET_MASTER_PORT": "29500"}),
    "indexed-job": (("train-0", "train-1"), {**POD, "JOB_COMPLETION_INDEX": "{index}"}),
}


def code_spans(text):
    return re.findall(r"`([^`]+)`", text)


def platform_lines():
    """The commands in docs/platforms.md, by the names in the first column; "plain" has none."""
    out = {}
    for row in (ROOT / "docs/platforms.md").read_text().splitlines():
        cells = row.split(" | ")
        lines = [span for span in code_spans(cells[1] if len(cells) > 2 else "")
                 if span.startswith("muster ")]
        if row.startswith("| machines without a scheduler"):
            out["plain"], = lines
        elif row.startswith("| machines and ssh"):
            out["ssh"], = lines
        elif lines:
            out.update({name: lines[0] for name in code_spans(cells[0])})
    return out


def readme_line(beginning):
    return next(line.partition("#")[0].strip()
                for line in (ROOT / "README.md").read_text().splitlines()
                if line.startswith(beginning))


class Pages(HostsCase):
    def setUp(self):
        super().setUp()
        self.homes = pathlib.Path(tempfile.mkdtemp(prefix="muster_test_", dir=MEMORY))
        self.addCleanup(shutil.rmtree, self.homes)

    @contextlib.contextmanager
    def shows(self, platform, line):
        """Runs one page's command. The first failure ends the test, because each takes a minute to
        detect."""
        try:
            yield
        except AssertionError as wrong:
            raise AssertionError(f"{platform}: {line}: {wrong}") from None
        self.net.close()

    def home(self, name):
        """The variables of a user's shell on this host."""
        home = self.homes / name
        home.mkdir(exist_ok=True)
        return {"HOME": str(home), "XDG_CONFIG_HOME": ""}

    def job_of(self, names, line):
        self.hosts(*names)
        entries = "".join(f"{host.address} {host.name}{DOMAIN} {host.name}\n"
                          for host in self.net.hosts)
        for host in self.net.hosts:
            host.etc(hosts="127.0.0.1 localhost\n" + entries)
        job = self.cluster("?")
        words = shlex.split(re.sub(r"\bN\b", "2", line.replace("HOST", names[0])))
        self.assertEqual(words[0], "muster")
        self.assertEqual(words[-1], "train.py")
        job.launcher_args = lambda *_, **__: [*words[1:-1], WORKER]
        return job

    def start(self, job, number, env):
        first, second = self.net.hosts
        known = {"first": first.name, "first_ip": first.address, "second_ip": second.address,
                 "index": number - 1, "name": self.net.hosts[number - 1].name.upper()}
        set_here = {name: text.format(**known) for name, text in env.items()}
        return job.start(number, env={**self.home(self.net.hosts[number - 1].name), **set_here})

    def assert_works(self, line, names, env, workers):
        job = self.job_of(names, line)
        nodes = [self.start(job, number, env) for number in (2, 1)]
        one = job.round(workers)
        self.assertEqual(set(one.nodes), set(names))
        errors = [ended.said for ended in job.finish(*nodes)]
        # One warning about strangers on the leader; without a secret, every pod warns.
        expected = NO_TOKEN if "KUBERNETES_SERVICE_HOST" in env else GUESTS
        self.assertIn(expected, "".join(errors))
        for text in errors:
            self.assertLessEqual(len(text.splitlines()), 1, f"{line}: {text}")

    def test_each_platform(self):
        lines = platform_lines()
        for name, (names, env) in PLATFORMS.items():
            workers = 4 if {"WORKER_PER_NODE", "NPROC_PER_NODE", "NUM_TRAINERS"} & {*env} else 2
            with self.shows(name, lines[name]):
                self.assert_works(lines[name], names, env, workers)

    def test_the_first_page(self):
        line = readme_line("muster --nnodes=")
        self.assert_works(line, ("node1", "node2"), {}, 8)

    def test_one_shell_and_ssh(self):
        """ssh is a program that enters the host's namespaces, with the home directory there."""
        for line in (readme_line("muster --hosts "), platform_lines()["ssh"]):
            with self.shows("ssh", line):
                names = re.findall(r"(\w+):4", line)
                job = self.job_of(names, line)
                self.ssh(job)
                path = {"PATH": f"{self.folder}:/usr/sbin:/usr/bin:/sbin:/bin"}
                node = job.start(1, env={**self.home(names[0]), **path})
                one = job.round(8)
                self.assertEqual(len({env["GROUP_RANK"] for env in one.env.values()}), 2)
                ended, = job.finish(node)
                self.assertEqual(ended.said, "")

    def ssh(self, job):
        cases = ""
        for host in self.net.hosts:
            words = [*host.prefix, "env", f"HOME={self.home(host.name)['HOME']}",
                     f"NODE_DIR={job.folder}", f"NODE_LABEL={host.name}", "sh", "-c"]
            cases += f"{host.name}) exec {shlex.join(words)} \"$command\";;\n"
        program = self.folder / "ssh"
        program.write_text("#!/bin/bash\nfor command; do :; done\nfor host in \"$@\"; do\n"
                           f"case $host in\n{cases}esac\ndone\nexit 255\n")
        program.chmod(0o755)
