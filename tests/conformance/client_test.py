#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Our C++ client through every operation: against muster-store, or with the argument "torch"
against the server of the PyTorch that runs this file."""
import os
import subprocess
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / 'support'))


def exercise(port):
    return subprocess.run([os.environ['EXERCISE'], str(port)], text=True,
                          stdout=subprocess.PIPE, timeout=100)


class AgainstMusterStore(unittest.TestCase):
    def test_every_operation(self):
        from store_process import StoreProcess
        with StoreProcess() as store:
            done = exercise(store.port)
        self.assertEqual((done.returncode, done.stdout), (0, ''))


class AgainstTorch(unittest.TestCase):
    def test_every_operation(self):
        from torch.distributed import TCPStore
        server = TCPStore('127.0.0.1', 0, None, True, wait_for_workers=False)
        done = exercise(server.port)
        self.assertEqual((done.returncode, done.stdout), (0, ''))


if __name__ == '__main__':
    torch = 'torch' in sys.argv[1:]
    unittest.main(argv=sys.argv[:1], defaultTest='AgainstTorch' if torch else 'AgainstMusterStore')
