# SPDX-License-Identifier: Apache-2.0
"""muster_torch_flights without PyTorch: modules with PyTorch's name that do what it relies on.
tests/hangs tests it with the real one."""
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

PACKAGE = pathlib.Path(__file__).parents[2] / "lib" / "python"
DEADLINE = 60
C10D = """
def init_process_group(backend):
    return "made " + backend
"""
DUMPS = """
def _dump_fr_trace(entries, stacks, active):
    assert (entries, stacks, active) == (True, False, False)
    return b"dump"
"""
# Like a Python that finds the .pth file among its packages.
BEGIN = f"import os, site, sys; site.addsitedir({str(PACKAGE)!r})\n"
MAKE = """
import torch.distributed.distributed_c10d as c10d
print(c10d.init_process_group("gloo"), c10d.init_process_group("again"))
import threading
print(*(thread.name for thread in threading.enumerate()))
"""


class Flights(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def write(self, name, text=""):
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def run_program(self, program, dumps=DUMPS, **variables):
        for name in ("torch/__init__.py", "torch/distributed/__init__.py", "torch/_C/__init__.py"):
            self.write(name)
        self.write("torch/distributed/distributed_c10d.py", C10D)
        self.write("torch/_C/_distributed_c10d.py", dumps)
        done = subprocess.run(
            [sys.executable, "-c", BEGIN + program], capture_output=True, text=True,
            timeout=DEADLINE, env={**os.environ, "PYTHONPATH": str(self.folder), **variables})
        self.assertEqual((done.returncode, done.stderr), (0, ""), done)
        return done.stdout.splitlines()

    def place(self):
        (self.folder / "run").mkdir()
        return {"MUSTER_TORCH_FLIGHTS": str(self.folder / "run" / "flights_")}

    def test_a_process_with_a_group_answers(self):
        self.assertEqual(self.run_program(MAKE + """
stem = f"{os.environ['MUSTER_TORCH_FLIGHTS']}{os.getpid()}"
for _ in range(2):
    with open(stem + ".pipe", "wb") as pipe:
        pipe.write(b"1")
    while not os.path.exists(stem) or os.path.getsize(stem) < 4:
        pass
    print(open(stem).read())
    os.unlink(stem)
""", **self.place()), ["made gloo made again", "MainThread muster-flights", "dump", "dump"])

    def test_without_the_variable_nothing_happens(self):
        shown = self.run_program(MAKE + "print('muster_torch_flights' in sys.modules)\n",
                                 MUSTER_TORCH_FLIGHTS="")
        self.assertEqual(shown, ["made gloo made again", "MainThread", "False"])

    def test_without_a_group_nobody_listens(self):
        place = self.place()
        self.run_program("import torch.distributed.distributed_c10d\n", **place)
        self.assertEqual(list((self.folder / "run").iterdir()), [])

    def test_a_pytorch_that_records_nothing_of_gloo(self):
        place = self.place()
        self.assertEqual(self.run_program(MAKE, dumps="", **place),
                         ["made gloo made again", "MainThread"])
        self.assertEqual(list((self.folder / "run").iterdir()), [])

    def test_a_folder_that_is_gone_is_no_error(self):
        self.assertEqual(self.run_program(MAKE, MUSTER_TORCH_FLIGHTS="/no/such/folder/flights_"),
                         ["made gloo made again", "MainThread"])


if __name__ == "__main__":
    unittest.main()
