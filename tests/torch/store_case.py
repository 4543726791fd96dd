# SPDX-License-Identifier: Apache-2.0
"""Code shared by the tests of PyTorch's TCPStore class: a server for each test, clients, threads
that wait."""
import time
import unittest
from datetime import timedelta

import torch
from torch.distributed import TCPStore

import support
from support import Background

IS_OLD = int(torch.__version__.split(".")[0]) < 2  # the dialect of PyTorch 2.0 and earlier
OLD_SERVER = IS_OLD and support.serves_itself()
LONG = timedelta(seconds=support.DEADLINE)


def milliseconds(number):
    return timedelta(milliseconds=number)


class StoreTest(unittest.TestCase):
    """Each test has its own server, and as many clients as it requests."""

    def setUp(self):
        server = support.store_server()
        self.port = server.__enter__()
        self.addCleanup(server.__exit__, None, None, None)

    def client(self, timeout=LONG):
        return TCPStore("127.0.0.1", self.port, None, False, timeout)

    def starts_waiting(self, call, *args):
        """Starts a call that must block, and gives it time to reach that point."""
        waiter = Background(call, *args)
        time.sleep(0.02)  # makes the interesting order likely; any order must pass
        self.assertTrue(waiter.running(), "the call did not wait")
        return waiter
