# SPDX-License-Identifier: Apache-2.0
"""PyTorch on several nodes under muster: training continues when nodes die, including its host."""
import os
import re
import sys
import unittest

import support

sys.path.insert(0, os.path.join(support.ROOT, "tests", "integration"))
os.environ.setdefault("MUSTER_BIN", support.program("muster"))
for unused in ("MUSTER_PUPPET", "MUSTER_NODE_WORKER"):
    os.environ.setdefault(unused, "")
sys.path.insert(0, os.path.join(support.HERE, "workers"))

from harness import eventually  # noqa: E402
from nodes import Node, NodesCase, parse_lines  # noqa: E402
import train_together  # noqa: E402

TRAIN = support.worker("train_together.py")
DIGITS = os.path.join(support.EXAMPLES, "digits_ddp.py")
GROUPS = support.worker("groups.py")
# No restart is allowed, because consequences of a node's death must not count as failures.
CONF = "last_call_timeout=500,lease=5"


class TorchNodes(NodesCase):
    def cluster(self, nnodes, **how):
        return super().cluster(nnodes, conf=how.pop("conf", CONF), **how)

    def settings(self):
        """For workers: this interpreter, and gloo on the loopback device."""
        return {"env": {"PYTHON_EXEC": sys.executable, "TMPDIR": str(self.folder),
                        "GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"}}


class Training(TorchNodes):
    def setUp(self):
        super().setUp()
        self.job = self.cluster("2:3")
        self.program = [TRAIN, str(self.folder / "checkpoint")]
        self.nodes = dict(enumerate(
            self.job.start_all(3, program=self.program, **self.settings()), 1))

    def lines(self):
        return list(parse_lines(self.job.folder / "steps"))

    def trained(self, world, steps=2 * train_together.SAVE_EACH + 1):
        """Waits until the latest round has this world size and has trained this number of steps."""
        def look():
            lines = self.lines()
            starts = [i for i, line in enumerate(lines) if "from" in line]
            done = [line for line in lines[starts[-1]:] if "step" in line] if starts else []
            return len(done) >= steps and done[-1]["world"] == world
        eventually(look, lambda: f"a world of {world} trains; {self.lines()[-5:]}\n"
                   f"{self.job.describe()}", support.DEADLINE)

    def start_again(self, number):
        self.nodes[number] = self.job.start(number, program=self.program, **self.settings())

    def finish(self):
        self.job.finish(*self.nodes.values())
        self.check_steps()

    def check_steps(self):
        """Every round continued from the last checkpoint, and the losses equal those of an
        undisturbed run."""
        lines, saved, step = self.lines(), 0, 0
        losses = train_together.reference(max(line.get("step", 0) for line in lines))
        for line in lines:
            if "from" in line:
                # Rank 0 may die after it has saved a step and before it writes the line.
                if step % train_together.SAVE_EACH == 0 and line["from"] == step + 1:
                    saved = step
                self.assertEqual(line["from"], saved + 1, "a step was lost or done twice")
                step = saved
            elif "saved" in line:
                saved = line["saved"]
            else:
                step += 1
                self.assertEqual(line["step"], step)
                self.assertAlmostEqual(line["loss"], losses[step - 1], places=9)
        self.assertEqual(losses, sorted(losses, reverse=True), "the loss falls")
        self.assertLess(losses[-1], losses[0])

    def lose(self, number, kill):
        self.trained(3)
        kill(self.nodes.pop(number))
        self.trained(2)

    def test_goes_on_when_a_nodes_agent_is_killed_and_when_it_comes_back(self):
        self.lose(3, Node.kill_agent)
        self.start_again(3)
        self.trained(3)
        self.finish()

    def test_goes_on_when_the_host_is_killed_and_when_it_comes_back(self):
        self.lose(1, Node.kill_all)
        self.start_again(1)
        self.trained(3)
        self.finish()

    def test_goes_on_when_a_node_falls_silent(self):
        self.trained(3)
        frozen = self.nodes.pop(2)
        frozen.stop_all()
        self.trained(2)
        frozen.kill_all()
        self.finish()


class Jobs(TorchNodes):
    def test_groups_over_three_nodes_of_different_size(self):
        job = self.cluster("3")
        nodes = [job.start(number, nproc=number, program=GROUPS, **self.settings())
                 for number in (1, 2, 1)]
        said = "".join(ended.out for ended in job.ends(*nodes))
        self.assertEqual(sorted(re.findall(r"rank \d of 4 is done", said)),
                         [f"rank {rank} of 4 is done" for rank in range(4)])

    def test_groups_over_the_store_by_address(self):
        # tcp:// instead of env://: each worker is a client of the store that the agent serves.
        script = self.python(
            "import os, torch, torch.distributed as dist\n"
            "env = os.environ\n"
            "dist.init_process_group('gloo', rank=int(env['RANK']),\n"
            "    world_size=int(env['WORLD_SIZE']),\n"
            "    init_method=f\"tcp://{env['MASTER_ADDR']}:{env['MASTER_PORT']}\")\n"
            "sums = torch.tensor([dist.get_rank() + 1])\n"
            "dist.all_reduce(sums)\n"
            "assert sums.item() == 10\n"
            "dist.barrier()\n"
            "dist.destroy_process_group()\n")
        job = self.cluster("2", backend="static", addresses=None)
        job.ends(*[job.start(rank, nproc=2, options=["--node-rank", rank], program=script,
                             **self.settings()) for rank in (1, 0)])

    def test_a_static_job(self):
        job = self.cluster("2", backend="static", addresses=None)
        nodes = [job.start(rank, nproc=2, options=["--node-rank", rank], program=GROUPS,
                           **self.settings()) for rank in (1, 0)]
        said = "".join(ended.out for ended in job.ends(*nodes))
        self.assertEqual(said.count("of 4 is done"), 4)

    def test_the_example_learns_on_two_nodes(self):
        job = self.cluster("2")
        nodes = job.start_all(2, program=[DIGITS, "--epochs", "4"], **self.settings())
        first, second = job.ends(*nodes)
        losses = [float(loss) for loss in re.findall(r"loss (\d+\.\d+)", first.out + second.out)]
        self.assertEqual(len(losses), 4)
        self.assertLess(losses[-1], losses[0] / 2)
        self.assertEqual(first.said + second.said, "")


if __name__ == "__main__":
    unittest.main(verbosity=2)
