# SPDX-License-Identifier: Apache-2.0
"""The manifests in examples/kubernetes as running jobs: each pod is a host of ../hosts with the
pod's name, files and environment, and a name server in the test resolves names. Only GPUs are
missing."""

import json
import pathlib
import subprocess
import unittest

import hosts
import manifests
from nodes import WORKER, NodesCase

SERVER = pathlib.Path(__file__).with_name("name_server.py")
RESOLV = f"""search {manifests.DOMAIN} svc.cluster.local cluster.local
nameserver {hosts.DNS}
options ndots:5
"""
LEASE = "lease=2"  # so that the job soon gives up a pod without an address


@unittest.skipIf(hosts.missing(), hosts.missing())
class Pods(NodesCase):
    def setUp(self):
        super().setUp()
        self.names = {}
        self.net = None

    def cluster_of(self, pods):
        self.net = hosts.Net(self.folder, [])
        self.addCleanup(self.net.close)
        self._cleanups.insert(0, self._cleanups.pop())  # runs last
        self.publish()
        server = subprocess.Popen(
            [*self.net.switch.prefix, "python3", str(SERVER), hosts.DNS, self.names_file],
            stdout=subprocess.PIPE)
        self.net.add(hosts.Killed(server))
        self.assertEqual(server.stdout.readline(), b"ready\n")
        server.stdout.close()
        job = self.cluster(str(len(pods)))
        job.launcher_args = lambda *_, words, **__: words
        return job

    @property
    def names_file(self):
        return str(self.folder / "names.json")

    def publish(self):
        """Replaces the file atomically, because the server may read it at any time."""
        new = self.folder / "names.new"
        new.write_text(json.dumps(self.names))
        new.rename(self.names_file)

    def start(self, job, pod, number):
        """Starts a pod at the address with this number. Returns its launcher."""
        host = self.net.add(hosts.Host(self.net, number, pod.name))
        host.etc(hosts=f"127.0.0.1\tlocalhost\n{host.address}\t{pod.full_name}\t{pod.name}\n",
                 resolv=RESOLV)
        self.net.hosts.append(host)
        self.names[pod.full_name] = host.address
        self.publish()
        self.assertEqual(pod.command[0], "muster")
        words = [WORKER if word == "train.py" else word for word in pod.command[1:]]
        # A separate home, like a container's: the pods share no token.
        env = {**pod.env, "HOME": f"/dev/shm/{self.folder.name}/{pod.name}", "XDG_CONFIG_HOME": ""}
        return job.start(number, label=pod.name, env=env, popen={"prefix": host.prefix},
                         words=words)

    def assert_one_job(self, pods):
        """Pods and their names may appear in any order; here the first pod is last."""
        job = self.cluster_of(pods)
        for number, pod in reversed(list(enumerate(pods, 1))):
            self.start(job, pod, number)
        one = job.round(len(pods))
        self.assertEqual(one.nodes, [pod.name for pod in pods])
        job.finish()
        return one

    def test_an_indexed_job(self):
        self.assert_one_job(manifests.indexed_job())

    def test_a_jobset(self):
        one = self.assert_one_job(manifests.jobset())
        self.assertEqual({env["TORCHELASTIC_RUN_ID"] for env in one.env.values()}, {"train-0"})

    def test_a_trainjob(self):
        self.assert_one_job(manifests.trainjob())

    def test_a_pod_that_comes_back_with_another_address(self):
        for back in (3, 0):
            with self.subTest(index=back):
                pods = manifests.indexed_job()
                for pod in pods:
                    pod.command.insert(1, f"--rdzv-conf={LEASE}")
                job = self.cluster_of(pods)
                nodes = [self.start(job, pod, number) for number, pod in enumerate(pods, 1)]
                job.round(4)
                # The whole pod is gone, and nothing at its old address answers any more.
                self.net.hosts[back].unplug()
                nodes[back].kill_all()
                self.start(job, pods[back], 11)
                one = job.round(4)
                self.assertEqual([name.split("~")[0] for name in one.nodes],
                                 [pod.name for pod in pods])
                self.assertEqual(one.restarts, 0, "a pod that comes back costs no restart")
                job.finish()
