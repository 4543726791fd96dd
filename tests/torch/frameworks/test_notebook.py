# SPDX-License-Identifier: Apache-2.0
"""muster.launch in a notebook that Jupyter executes: twice in one kernel, with an exception in one
rank, interrupted, and with the ranks' output in the cell."""
import inspect
import os
import sys
import threading
import time
import unittest

import nbclient
import nbformat

from support import DEADLINE, Case, environment

SETUP = """
import os, signal, muster

def rank():
    return int(os.environ["RANK"])

def train(rate):
    import torch, torch.distributed as dist
    print("training", flush=True)
    dist.init_process_group("gloo")
    total = torch.ones(1) * dist.get_rank()
    dist.all_reduce(total)
    dist.destroy_process_group()
    return rate, total.item()
"""
TWICE = "print(muster.launch(train, 0.5))"
FAILS = """
def broken():
    if rank() == 1:
        raise KeyError("in the cell")
    signal.pause()

try:
    muster.launch(broken)
except muster.WorkerError as error:
    caught = error
    print(error.rank, repr(error.__cause__), 'raise KeyError("in the cell")' in str(error))
"""
HANGS = """
def hang(folder):
    open(os.path.join(folder, f"up{rank()}"), "w").close()
    signal.pause()

muster.launch(hang, FOLDER, shutdown_timeout=5)
"""
# Makes PyTorch believe that the notebook has used a GPU. PyTorch then refuses to be forked.
CUDA = """
import torch, torch.cuda
torch.cuda._initialized = True
print(muster.notebook_launcher(lambda: torch.cuda._is_in_bad_fork(), num_processes=2))
"""


class Notebook(Case):
    def setUp(self):
        super().setUp()
        self.client = nbclient.NotebookClient(
            nbformat.v4.new_notebook(), timeout=DEADLINE, kernel_name="python3",
            resources={"metadata": {"path": self.folder}})
        # A kernel with this interpreter, whatever is installed for the user.
        self.client.create_kernel_manager()
        self.client.km.kernel_spec.argv = [sys.executable, "-m", "ipykernel_launcher", "-f",
                                           "{connection_file}"]
        here = self.client.setup_kernel(env=environment())
        here.__enter__()
        self.addCleanup(here.__exit__, None, None, None)
        self.cell(SETUP)

    def cell(self, text, may_fail=False):
        """Executes a cell and returns its outputs."""
        cell = nbformat.v4.new_code_cell(text)
        self.client.nb.cells.append(cell)
        self.client.allow_errors = may_fail
        self.client.execute_cell(cell, len(self.client.nb.cells) - 1)
        return cell.outputs

    def shown(self, outputs, stream="stdout"):
        return "".join(each.text for each in outputs
                       if each.output_type == "stream" and each.name == stream)

    def test_twice_in_one_kernel(self):
        for _ in range(2):
            shown = self.shown(self.cell(TWICE)).splitlines()
            self.assertEqual(sorted(shown), ["[(0.5, 1.0), (0.5, 1.0)]", "[rank 0]: training",
                                             "[rank 1]: training"])

    def test_an_exception_in_one_rank(self):
        self.assertEqual(self.shown(self.cell(FAILS)), "1 KeyError('in the cell') True\n")
        # Not caught: the cell's traceback ends with the rank's traceback.
        output = self.cell("muster.launch(broken)", may_fail=True)[-1]
        self.assertEqual((output.output_type, output.ename), ("error", "WorkerError"))
        self.assertIn("KeyError: 'in the cell'", output.evalue)
        self.assertEqual(self.shown(self.cell("print(muster.launch(rank))")), "[0, 1]\n")

    def test_interrupted(self):
        def interrupt():
            names = [os.path.join(self.folder, f"up{rank}") for rank in (0, 1)]
            give_up = time.monotonic() + DEADLINE
            while not all(map(os.path.exists, names)) and time.monotonic() < give_up:
                threading.Event().wait(0.05)
            os.killpg(os.getpgid(self.client.km.provisioner.pid), 2)
        thread = threading.Thread(target=interrupt)
        thread.start()
        output = self.cell(HANGS.replace("FOLDER", repr(self.folder)), may_fail=True)[-1]
        thread.join()
        self.assertEqual((output.output_type, output.ename), ("error", "KeyboardInterrupt"))
        # The kernel and its state survive.
        self.assertEqual(self.shown(self.cell("print(muster.launch(rank))")), "[0, 1]\n")

    def test_where_cuda_was_initialised(self):
        self.assertEqual(self.shown(self.cell(CUDA)), "[False, False]\n")


class Signature(unittest.TestCase):
    def test_it_is_accelerates(self):
        import accelerate

        import muster
        theirs = inspect.signature(accelerate.notebook_launcher).parameters.values()
        ours = inspect.signature(muster.notebook_launcher).parameters.values()
        self.assertEqual([(each.name, each.default) for each in ours],
                         [(each.name, each.default) for each in theirs])


class Accelerate(Case):
    def test_its_training_loop_in_a_notebook_launcher(self):
        """With an Accelerator in the calling process, which Accelerate's own launcher rejects."""
        out, _ = self.end(self.start(sys.executable, self.write("cell.py", """
import sys
sys.path.insert(0, sys.argv[1])
from accelerate import Accelerator
Accelerator(cpu=True)
import muster, with_accelerate

def train(name):
    from accelerate import PartialState
    with_accelerate.main()
    return name, PartialState().process_index

print(muster.notebook_launcher(train, ("x",), 2, "no"))
"""), os.path.join(os.path.dirname(os.path.abspath(__file__)), "programs")))
        self.assertIn("[('x', 0), ('x', 1)]\n", out)
        self.assertRegex(out, r"(?m)^\[rank 0\]: world 2 no weights")


if __name__ == "__main__":
    unittest.main(verbosity=2)
