# SPDX-License-Identifier: Apache-2.0
"""PyTorch's own tests of torch.distributed on CPUs, over gloo, or with MUSTER_TORCH_REPLACES=gloo
over "muster". Must be started by hand; tests/CONTRACT.md lists the counts.

    python -m pip install --no-deps --target FOLDER expecttest hypothesis sortedcontainers
    PYTHONPATH=FOLDER:lib/python [MUSTER_TORCH_REPLACES=gloo MUSTER_TORCH_BACKEND=compiled] \\
        tests/torch/with_torch current pytorch_tests.py [MODULE [CLASS.test_NAME ...]]

with MUSTER_COLLECTIVE_LIBRARY set. MODULE is distributed_test, which is in PyTorch's wheel, or
test_c10d_gloo or test_c10d_common from test/distributed in PyTorch's source; PYTORCH_TESTS is the
path of that folder. Ranks are forked from this process, because importing takes 10 s each."""
import importlib
import os
import sys
import tempfile
import unittest
from datetime import timedelta

import support

OURS = bool(os.environ.get("MUSTER_TORCH_REPLACES"))


def environment():
    for name, value in (("BACKEND", "gloo"), ("WORLD_SIZE", "3"), ("MASTER_ADDR", "127.0.0.1"),
                        ("MASTER_PORT", str(support.free_port())),
                        ("TEMP_DIR", tempfile.mkdtemp())):
        os.environ.setdefault(name, value)


def fork(case):
    import torch
    case._start_processes(torch.multiprocessing.get_context("fork").Process)


def wheels():
    """The cases of distributed_test.py."""
    environment()
    from torch.testing._internal.distributed import distributed_test as theirs

    class Spawned(theirs.TestDistBackend, theirs.DistributedTest._DistTestBase):
        def setUp(self):
            super().setUp()
            fork(self)
    return {"Spawned": Spawned}


def sources(name):
    """The cases of a module of PyTorch's source."""
    from torch.testing._internal import common_distributed
    common_distributed.MultiProcessTestCase._spawn_processes = fork
    sys.path.insert(0, os.environ["PYTORCH_TESTS"])
    module = importlib.import_module(name)
    if OURS and hasattr(module, "ProcessGroupGlooTest"):
        module.ProcessGroupGlooTest._create_process_group_gloo = create
    return vars(module)


def create(case, store, rank, size, options):
    """Replaces the tests' direct creation of a ProcessGroupGloo outside torch.distributed."""
    from muster.torch import bootstrap
    seconds = options._timeout
    if not isinstance(seconds, timedelta):
        seconds = timedelta(seconds=seconds)
    made = bootstrap.create(store, rank, size, seconds, "gloo")
    made.barrier().wait()
    return made


def without_devices():
    """Some cases choose gloo's network devices, which muster does not have. Ignores the choice."""
    from muster.torch import compiled
    from muster.torch.group import ProcessGroup
    for kind in (ProcessGroup, getattr(compiled.module(0), "Backend", None)):
        if kind is not None:
            kind.create_device = staticmethod(lambda **_: None)


def main():
    words = sys.argv[1:]
    name = words.pop(0) if words and "." not in words[0] else "distributed_test"
    if OURS:
        import muster.torch  # noqa: F401
        without_devices()
    found = wheels() if name == "distributed_test" else sources(name)
    for each, value in found.items():
        if isinstance(value, type) and issubclass(value, unittest.TestCase):
            value.__module__ = "__main__"
            globals()[each] = value
    unittest.main(argv=[sys.argv[0], *words], verbosity=2)


if __name__ == "__main__":
    main()
