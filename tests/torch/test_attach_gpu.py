# SPDX-License-Identifier: Apache-2.0
"""muster.torch.attach and operations on GPU tensors, with real autograd, over the strict fakes of
CUDA and NCCL (tests/nccl/fakes). FAKES is the folder of the fakes.

PyTorch has no GPU here; workers/fake_gpu.py describes what is simulated. The tests show what the
package does with parameters on cuda:N: where gradients are, on which streams they are marked and
waited for, and that sums, copies and frees follow earlier uses of the memory. They do not cover
PyTorch's own CUDA runtime: its kernels, its allocator, and how its engine sets the stream for
hooks.
"""
import os
import re
import unittest

import support

FAKES = os.environ["FAKES"]
WORKER = support.worker("muster_attach_gpu.py")


class AttachOnGpus(support.PackageCase):
    def setUp(self):
        super().setUp()
        os.mkfifo(os.path.join(self.folder, "go"))
        self.environment.update(
            MUSTER_CUDA_LIBRARY=f"{FAKES}/libcuda.so.1", MUSTER_FAKE_CUDA_DEVICES="2",
            MUSTER_NCCL_LIBRARY=f"{FAKES}/libnccl.so.2", MUSTER_FAKE_NCCL_DIR=self.folder)

    def succeed(self, *words):
        """Importing PyTorch takes seconds, so each process performs several tasks."""
        output = self.succeeded(self.launch(2, WORKER, *words))
        self.assertEqual(sorted(re.findall(r"rank \d of \d: .* as they should be", output)),
                         [f"rank {rank} of 2: {' '.join(words)} are as they should be"
                          for rank in range(2)], output)

    def test_training_on_any_stream(self):
        self.succeed("training", "side", "parts", "unused", "wire")

    def test_operations_waits_and_failures(self):
        self.succeed("plain", "ahead", "mistakes", "failure")


if __name__ == "__main__":
    unittest.main(verbosity=2)
