# SPDX-License-Identifier: Apache-2.0
"""--warm with PyTorch's own processes, with DataLoader workers and under coverage: the same results
as cold."""
import json
import os
import sys
import unittest

from support import COLD, Case

PROCESSES = """
import os
import torch
import torch.multiprocessing as mp
from torch.utils.data import DataLoader, Dataset, get_worker_info

class Numbers(Dataset):
    def __len__(self):
        return 8
    def __getitem__(self, index):
        return torch.tensor([index * 2, get_worker_info().num_workers])

def add(rank, shared):
    shared[rank] += rank + 1

if __name__ == "__main__":
    for method in ("fork", "spawn", "forkserver"):
        loader = DataLoader(Numbers(), batch_size=2, num_workers=2, multiprocessing_context=method)
        print(os.environ["RANK"], method, torch.cat(list(loader)).tolist())
    shared = torch.zeros(2).share_memory_()
    mp.spawn(add, (shared,), nprocs=2)
    print(os.environ["RANK"], "spawned", shared.tolist())
"""
COVERED = """
import json
import sys

def used(x):
    if x > 5:
        return 1
    return json.dumps(x)

def unused():
    return 2

print(used(int(sys.argv[1])))
"""


class Warm(Case):
    def both(self, *words):
        """Stdout of the job, cold and warm, as sorted lines."""
        found = []
        for warm in ((), ("--warm=torch,torch.multiprocessing,torch.utils.data",)):
            out, err = self.muster(*warm, "--nproc-per-node=2", *words)
            self.assertNotIn(COLD, err)
            found.append((sorted(out.splitlines()), err))
        self.assertEqual(*found)
        return found[0][0]

    def test_processes_of_torch_and_of_loaders(self):
        shown = self.both(self.write("processes.py", PROCESSES))
        self.assertEqual(len(shown), 8, shown)
        self.assertIn("1 spawned [1.0, 2.0]", shown)
        self.assertEqual(shown[0], f"0 fork {[[2 * i, 2] for i in range(8)]}")

    def test_numbers_of_torch(self):
        """torch seeds its own generator during its import, so each worker must seed it again."""
        script = self.write("drawn.py", "import torch\nprint(torch.rand(1))\n")
        out, err = self.muster("--warm=torch", "--nproc-per-node=2", script)
        self.assertNotIn(COLD, err)
        self.assertEqual(len(set(out.splitlines())), 2, out)

    def covered(self, *warm):
        """{file: the executed lines} according to coverage, over both ranks."""
        for name in os.listdir(self.folder):
            if name.startswith(".coverage"):
                os.remove(os.path.join(self.folder, name))
        script = self.write("covered.py", COVERED)
        _, err = self.muster(*warm, "--nproc-per-node=2", "-m", "coverage", "run",
                             "--parallel-mode", "--include=covered.py", script, "3")
        self.assertNotIn(COLD, err)
        coverage = (sys.executable, "-m", "coverage")
        files = [name for name in os.listdir(self.folder) if name.startswith(".coverage.")]
        self.assertEqual(len(files), 2, "one for each rank")
        self.end(self.start(*coverage, "combine"))
        self.end(self.start(*coverage, "json", "-o", "covered.json"))
        with open(os.path.join(self.folder, "covered.json"), encoding="utf-8") as file:
            found = json.load(file)["files"]
        return {name: each["executed_lines"] for name, each in found.items()}

    def test_coverage(self):
        cold = self.covered()
        self.assertEqual(cold, {"covered.py": [2, 3, 5, 6, 8, 10, 13]})
        self.assertEqual(self.covered("--warm=json"), cold)


if __name__ == "__main__":
    unittest.main(verbosity=2)
