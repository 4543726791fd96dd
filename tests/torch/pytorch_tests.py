# SPDX-License-Identifier: Apache-2.0
"""PyTorch's own tests of torch.distributed (distributed_test.py, from its wheel) on CPUs, over
gloo, or with MUSTER_TORCH_REPLACES=gloo over "muster". By hand, not part of scripts/test:

    python -m pip install --no-deps --target FOLDER expecttest hypothesis sortedcontainers
    PYTHONPATH=FOLDER:lib/python [MUSTER_TORCH_REPLACES=gloo] \\
        tests/torch/with_torch current pytorch_tests.py [Spawned.test_NAME ...]

with MUSTER_COLLECTIVE_LIBRARY set. Ranks are forked from this process: the imports take 10 s each.
The counts are in tests/CONTRACT.md."""
import os
import socket
import tempfile
import unittest


def environment():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    for name, value in (("BACKEND", "gloo"), ("WORLD_SIZE", "3"), ("MASTER_ADDR", "127.0.0.1"),
                        ("MASTER_PORT", str(port)), ("TEMP_DIR", tempfile.mkdtemp())):
        os.environ.setdefault(name, value)


environment()
if os.environ.get("MUSTER_TORCH_REPLACES"):
    import muster.torch  # noqa: F401
import torch  # noqa: E402
from torch.testing._internal.distributed import distributed_test as theirs  # noqa: E402


class Spawned(theirs.TestDistBackend, theirs.DistributedTest._DistTestBase):
    def setUp(self):
        super().setUp()
        self._start_processes(torch.multiprocessing.get_context("fork").Process)


if __name__ == "__main__":
    unittest.main(verbosity=2)
