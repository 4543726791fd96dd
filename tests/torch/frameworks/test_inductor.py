# SPDX-License-Identifier: Apache-2.0
"""torch.compile with Inductor over the compiled and the Python version of the backend "muster":
each case in tests/torch/workers/muster_inductor.py gives the same results as over gloo."""
import os
import re
import unittest

from support import HERE, Case

WORKER = os.path.join(os.path.dirname(HERE), "workers", "muster_inductor.py")
CASES = {"ddp_optimizer", "one_graph", "python_reducer", "ddp_in_the_function",
         "functional_collectives", "ordinary_collectives"}


class Inductor(Case):
    def check(self, half):
        # A separate cache, so that the graphs are compiled here.
        out, err = self.muster("--nproc-per-node=2", WORKER, MUSTER_TORCH_BACKEND=half,
                               TORCHINDUCTOR_CACHE_DIR=os.path.join(self.folder, "inductor"))
        self.assertEqual(sorted(re.findall(r"(\w+): as gloo", out)), sorted([*CASES, *CASES]),
                         out + err)

    def test_over_the_half_in_python(self):
        self.check("python")

    def test_over_the_compiled_half(self):
        self.check("compiled")


if __name__ == "__main__":
    unittest.main(verbosity=2)
