# SPDX-License-Identifier: Apache-2.0
"""PyTorch's own clients on two hosts with separate networks: they reach the workers' store
directly, vouched for by their node, and through the launchers."""
import os
import re
import sys
import unittest

import support

for folder in ("integration", "hosts"):
    sys.path.insert(0, os.path.join(support.ROOT, "tests", folder))
os.environ.setdefault("MUSTER_BIN", support.program("muster"))
for unused in ("MUSTER_PUPPET", "MUSTER_NODE_WORKER"):
    os.environ.setdefault(unused, "")

from hosts import HostsCase  # noqa: E402

GROUPS = support.worker("groups.py")


class Hosts(HostsCase):
    def run_groups(self, via):
        self.hosts("node1", "node2")
        job = self.cluster("2", conf="last_call_timeout=500", options=[f"--store-via={via}"])
        environ = {"PYTHON_EXEC": sys.executable, "TMPDIR": str(self.folder),
                   "GLOO_SOCKET_IFNAME": "eth0", "OMP_NUM_THREADS": "1"}
        nodes = [job.start(number, nproc=2, program=GROUPS, env=environ) for number in (1, 2)]
        ended = job.ends(*nodes)
        said = "".join(each.out for each in ended)
        self.assertEqual(sorted(re.findall(r"rank \d of 4 is done", said)),
                         [f"rank {rank} of 4 is done" for rank in range(4)])
        self.assertNotIn("refused", "".join(each.err for each in ended))

    def test_direct(self):
        self.run_groups("direct")

    def test_proxy(self):
        self.run_groups("proxy")


if __name__ == "__main__":
    unittest.main()
