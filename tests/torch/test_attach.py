# SPDX-License-Identifier: Apache-2.0
"""muster.torch.attach under muster: gradients of a module without a process group."""
import re
import subprocess
import sys
import unittest

import support
import torch

IS_OLD = not hasattr(torch.Tensor, "register_post_accumulate_grad_hook")
WHY = f"PyTorch {torch.__version__} has no Tensor.register_post_accumulate_grad_hook (2.1 has)"
WORKER = support.worker("muster_attach.py")


class Attach(support.PackageCase):
    def succeed(self, ranks, what):
        output = self.succeeded(self.launch(ranks, WORKER, what))
        self.assertEqual(sorted(re.findall(r"rank \d of \d: \w+ as they should be", output)),
                         [f"rank {rank} of {ranks}: {what} as they should be"
                          for rank in range(ranks)], output)

    @unittest.skipIf(IS_OLD, WHY)
    def test_gradients_are_those_of_ddp_over_gloo(self):
        for ranks in (2, 3):
            with self.subTest(ranks=ranks):
                self.succeed(ranks, "gradients")

    @unittest.skipIf(IS_OLD, WHY)
    def test_gradients_lie_in_buckets(self):
        self.succeed(2, "places")
        self.succeed(2, "sparse")

    @unittest.skipIf(IS_OLD, WHY)
    def test_mistakes_are_named(self):
        self.succeed(2, "mistakes")

    @unittest.skipUnless(IS_OLD, "for PyTorch before 2.1")
    def test_an_older_pytorch_is_told(self):
        script = ("import torch, muster, muster.torch\n"
                  "comm = muster.Communicator.create(None, 0, 1)\n"
                  "muster.torch.attach(torch.nn.Linear(1, 1), comm)\n")
        done = subprocess.run([sys.executable, "-c", script], text=True, capture_output=True,
                              env=support.clean_environment(self.environment),
                              timeout=support.DEADLINE)
        self.assertEqual(done.returncode, 1)
        self.assertIn("muster.errors.Unsupported: muster.torch.attach needs PyTorch 2.1 or later",
                      done.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
