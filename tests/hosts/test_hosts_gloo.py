# SPDX-License-Identifier: Apache-2.0
"""PyTorch's gloo on hosts whose own name resolves to 127.0.1.1 or not at all: it must use the
interface with the node's address. Uses Debian's PyTorch 1.13 and the one from scripts/torch_env;
fails if one of them is missing."""

import pathlib
import subprocess

from hosts import HostsCase

ROOT = pathlib.Path(__file__).resolve().parents[2]
SUM = """
import datetime, torch, torch.distributed as dist
dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=40))
tensor = torch.ones(1) * (dist.get_rank() + 1)
dist.all_reduce(tensor)
print("sum", tensor.item(), "of", dist.get_world_size(), flush=True)
dist.destroy_process_group()
"""


def made_python():
    """Waits for the environment if another process is creating it."""
    made = subprocess.run([ROOT / "scripts" / "torch_env"], stdout=subprocess.PIPE, text=True,
                          check=True)
    return made.stdout.strip()


class Gloo(HostsCase):
    def sums(self, python, version, etc):
        """Two hosts compute a sum; etc(host) is the line about itself in its /etc/hosts."""
        found = subprocess.run([python, "-c", "import torch.distributed, torch;"
                                "print(torch.__version__)"], stdout=subprocess.PIPE, text=True,
                               check=False)
        self.assertRegex(found.stdout, "^" + version, f"{python} has no PyTorch {version}")
        script = self.folder / "sum.py"
        script.write_text(SUM)
        for host in self.hosts("node1", "node2"):
            host.etc(hosts="127.0.0.1 localhost\n" + etc(host))
        job = self.cluster("2")
        job.launcher_args = lambda *_, **__: [
            "--nnodes=2", f"--rdzv-endpoint={job.endpoint}", str(script)]
        env = {"PYTHON_EXEC": python, "OMP_NUM_THREADS": "1"}
        nodes = [job.start(number, env=env) for number in (1, 2)]
        for ended in job.ends(*nodes, code=0):
            self.assertIn("sum 3.0 of 2", ended.out)

    def test_the_own_name_is_127_0_1_1(self):
        self.sums("/usr/bin/python3", "1.13", lambda host: f"127.0.1.1 {host.name}\n")

    def test_the_own_name_is_127_0_1_1_with_the_current_pytorch(self):
        self.sums(made_python(), "2.15", lambda host: f"127.0.1.1 {host.name}\n")

    def test_the_own_name_does_not_resolve(self):
        self.sums("/usr/bin/python3", "1.13", lambda _: "")

    def test_the_own_name_does_not_resolve_with_the_current_pytorch(self):
        self.sums(made_python(), "2.15", lambda _: "")

    def test_the_variables_follow_the_node_and_iface(self):
        self.hosts("node1", "node2")
        job = self.cluster("2")
        for number in (1, 2):
            job.start(number, options=["--iface=eth0"] if number == 2 else [])
        one = job.round(2)
        names = [(env["GLOO_SOCKET_IFNAME"], env.get("NCCL_SOCKET_IFNAME"))
                 for env in one.env.values()]
        self.assertEqual(names, [("eth0", None), ("eth0", "=eth0")])
        job.finish()

    def test_it_can_be_switched_off(self):
        self.hosts("node1", "node2")
        job = self.cluster("2")
        for number in (1, 2):
            job.start(number, options=["--no-socket-ifname"])
        self.assertEqual([env.get("GLOO_SOCKET_IFNAME") for env in job.round(2).env.values()],
                         [None, None])
        job.finish()
