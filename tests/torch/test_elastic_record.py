# SPDX-License-Identifier: Apache-2.0
"""muster --restart=rank with DDP: after kills at random times, the weights, the buffers and all
random generators are bitwise identical to those of an undisturbed job."""
import contextlib
import copy
import io
import os
import pathlib
import random
import re
import signal
import subprocess
import sys
import tempfile
import threading
import unittest
from unittest import mock

import numpy as np
import torch

import support
from support import DEADLINE, wait_until

sys.path.insert(0, os.path.join(support.ROOT, "lib/python"))
from muster import elastic  # noqa: E402
from elastic_others import Others  # noqa: E402
from muster.elastic import _gloo, torch_link  # noqa: E402
from muster.elastic._news import Members, NoNews  # noqa: E402
from muster.elastic._record import Record  # noqa: E402
from muster.elastic.torch_link import TorchLink  # noqa: E402

RANKS = 3
KILLS = int(os.environ.get("KILLS", "6"))


class Job:
    """A running job. FOLDER: where its ranks write (workers/elastic_record.py)."""

    def __init__(self, case, backend, *options, plan="", last=None, **variables):
        folder = tempfile.TemporaryDirectory(dir=case.folder)
        case.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        if last is not None:
            self.end_at(last)
        environment = support.clean_environment({
            **case.environment, **support.half(), "BACKEND": backend, "PLAN": plan,
            "FOLDER": folder.name, **variables})
        self.process = subprocess.Popen(
            [support.program("muster"), f"--nproc-per-node={RANKS}", "--warm", "--restart=rank",
             *options, support.worker("elastic_record.py")], env=environment, text=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        case.addCleanup(self.process.__exit__, None, None, None)
        case.addCleanup(self.process.kill)

    def end_at(self, step):
        (self.folder / "new").write_text(str(step))
        (self.folder / "new").rename(self.folder / "last")

    def steps(self):
        """The step and the pid of each rank."""
        return [tuple(map(int, path.read_text().split())) for path in self.folder.glob("*.step")]

    def wait_for_step(self, step):
        wait_until(lambda: self.process.poll() is not None or
                   [each >= step for each, _ in self.steps()] == [True] * RANKS, f"step {step}")
        return self.process.poll() is None

    def records(self):
        """The number of records that the agent holds."""
        agent = pathlib.Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        folder = f"/proc/{agent.read_text().split()[0]}/fd"
        return sum("muster-record" in os.readlink(f"{folder}/{fd}") for fd in os.listdir(folder))

    def end(self):
        out, err = self.process.communicate(timeout=DEADLINE)
        return self.process.returncode, out + err

    def results(self):
        return [torch.load(self.folder / f"{rank}.pt") for rank in range(RANKS)]


class States(unittest.TestCase):
    """One rank in this process."""

    def setUp(self):
        self.news = NoNews()
        self.news.record = Record(bytearray(1 << 20))

    def start(self):
        """A new process of this rank."""
        model = torch.nn.Sequential(torch.nn.BatchNorm1d(2), torch.nn.Dropout())
        self.addCleanup(lambda: state._attach(None, self.news, 0))
        state = elastic.TorchState(model=model, step=0)
        return state

    def sync(self, state, commits, mean):
        """With another rank whose running_mean this is."""
        values = copy.deepcopy(state.model.state_dict())
        values["0.running_mean"][:] = mean
        state._attach(Others(commits, {"model": values, "step": max(commits, 0)}), self.news, 1)
        state.sync()

    @staticmethod
    def draw():
        return random.random(), np.random.rand(), float(torch.rand(1))

    def test_at_the_start_the_buffers_of_rank_0_count(self):
        state = self.start()
        self.sync(state, -1, 5)
        self.assertEqual(state.model[0].running_mean.tolist(), [5, 5])
        self.assertTrue(self.news.record.has_commit(0))

    def test_a_rank_without_a_record_says_so(self):
        for record, expected in ((None, True), (self.news.record, True), ("none wanted", False)):
            with self.subTest(record=record), contextlib.redirect_stderr(io.StringIO()) as said:
                self.news.keeps_records = expected
                self.news.record = record if expected else None
                self.sync(self.start(), 3, 5)
                self.assertEqual("no intact record of commit 3" in said.getvalue(), expected)

    def check_returned(self, state, mean, numbers):
        self.assertEqual(state.model[0].running_mean.tolist(), mean)
        self.assertEqual((state.commits, self.draw()), (1, numbers))

    def test_ranks_continue_from_their_own_record(self):
        state = self.start()
        self.sync(state, 0, 5)
        state.model(torch.tensor([[1., 2.], [3., 4.]]))
        mean = state.model[0].running_mean.tolist()
        numbers = self.draw()
        with self.subTest("a rank that did not commit"):
            self.sync(state, 1, 7)
            self.check_returned(state, mean, numbers)
        with self.subTest("a replacement"):
            replacement = self.start()
            self.sync(replacement, 1, 7)
            self.check_returned(replacement, mean, numbers)

    def test_evaluations_and_copies_write_nothing(self):
        state = self.start()
        self.sync(state, 0, 5)
        x = torch.ones(2, 2)
        copy.deepcopy(state.model)(x)
        with torch.no_grad():
            state.model(x)
        state.model.eval()(x)
        self.assertIsNone(self.news.record.read(1))
        state._attach(None, self.news, 0)
        state.model.train()(x)
        self.assertIsNone(self.news.record.read(1))
        self.assertEqual(len(state.model._forward_hooks), 0)

    def test_a_commit_uses_the_memory_of_the_commit_before_the_last(self):
        model = torch.nn.Linear(2, 2)
        optimizer = torch.optim.Adam(model.parameters())
        odd = torch.zeros(3, requires_grad=True)
        state = elastic.TorchState(model=model, optimizer=optimizer, tied=[model.weight.data] * 2,
                                   odd=odd, array=np.zeros(2), step=0)
        seen, expected = [], []
        for step in range(6):
            if step == 2:  # Adam creates its tensors in the first step
                model(torch.ones(2)).sum().backward()
            if step == 4:
                state.odd = torch.zeros(4)
            optimizer.step()
            state.step, state.array[0] = step, step
            with self.subTest(step=step):
                expected.append(copy.deepcopy({
                    "model": model.state_dict(), "optimizer": optimizer.state_dict(),
                    "tied": state.tied, "odd": state.odd, "array": state.array, "step": step}))
                state.commit()
                seen.append(state._saved.values)
                for values, wanted in zip(seen[-2:], expected[-2:]):
                    self.assertEqual(repr(values), repr(wanted))
                self.assertIs(values["tied"][0], values["tied"][1])
                self.assertEqual(values["model"]._metadata, model.state_dict()._metadata)
        places = [values["model"]["weight"].data_ptr() for values in seen]
        self.assertEqual(places[2:], places[:-2])
        self.assertEqual(len({*places, model.weight.data_ptr()}), 3)

    def test_a_commit_that_fails_keeps_the_last_one(self):
        model = torch.nn.Linear(2, 2)
        state = elastic.TorchState(model=model, step=0)
        for step in range(4):
            with torch.no_grad():
                model.weight.fill_(step)
            state.step = step
            if step != 2:
                state.commit()
                continue
            with mock.patch.object(state, "_take_local", side_effect=MemoryError):
                self.assertRaises(MemoryError, state.commit)
            state.restore()
            self.assertEqual((state.step, model.weight[0, 0].item()), (1, 1))
        state.restore()
        self.assertEqual((state.step, model.weight[0, 0].item()), (3, 3))

    def test_compiled_models(self):
        if not hasattr(torch, "compile"):
            self.skipTest("PyTorch is too old")
        state = self.start()
        self.sync(state, 0, 5)
        torch.compile(state.model, backend="eager")(torch.ones(2, 2))
        self.assertIsNotNone(self.news.record.read(1))


class StuckInGloo(unittest.TestCase):
    def cut(self, backend, waits, groups=1, has_met=False):
        """The exit codes after cuts in the course of 3 s, which is what a survivor notices."""
        link = TorchLink(Members(1, 0, 2, None), backend)
        link._have_met = has_met
        with mock.patch.object(_gloo, "waits", lambda: waits), \
                mock.patch.object(torch_link, "_groups", lambda: [None] * groups), \
                mock.patch.object(torch_link, "_abort"), \
                mock.patch.object(torch_link.time, "monotonic", iter((0., 1., 3.)).__next__), \
                mock.patch.object(os, "_exit") as leave, \
                contextlib.redirect_stderr(io.StringIO()) as said:
            for _ in range(3):
                link.cut()
        self.assertEqual(leave.called, "rank 0: gloo does not return" in said.getvalue())
        return [call.args[0] for call in leave.call_args_list]

    def test_the_process_exits(self):
        self.assertEqual(self.cut("gloo", {"7": "a wait"}), [1])
        self.assertEqual(self.cut("cpu:gloo,cuda:nccl", {"7": "a wait"}), [1])
        self.assertEqual(self.cut("gloo", {}, has_met=True), [1])

    def test_it_does_not_exit_if_an_operation_may_still_end(self):
        self.assertEqual(self.cut("gloo", {}), [])
        self.assertEqual(self.cut("muster", {"7": "a wait"}), [])
        self.assertEqual(self.cut("gloo", {"7": "a wait"}, groups=2), [])


class Records(support.PackageCase):
    def check_equal(self, found, expected):
        for rank in range(RANKS):
            self.assertEqual(found[rank]["numbers"], expected[rank]["numbers"])
            for name, value in expected[rank]["model"].items():
                self.assertTrue(torch.equal(found[rank]["model"][name], value), (rank, name))

    def undisturbed(self, backend, last):
        job = Job(self, backend, "--max-restarts=1", last=last)
        code, text = job.end()
        self.assertEqual(code, 0, text)
        return job.results()

    def kill_ranks(self, job, chance):
        self.assertTrue(job.wait_for_step(1))
        for _ in range(KILLS):
            for _, pid in chance.sample(job.steps(), chance.choice((1, 1, 2))):
                threading.Event().wait(chance.uniform(0, 0.05))
                os.kill(pid, signal.SIGKILL)
            # A step that was in progress may still end, and the step after it needs all ranks.
            if not job.wait_for_step(max(step for step, _ in job.steps()) + 2):
                return  # end() reports why

    def test_ranks_are_killed_at_random_times(self):
        seed = int(os.environ.get("SEED", random.randrange(2**32)))
        for backend in ("muster", "gloo"):
            with self.subTest(backend=backend, seed=seed):
                restarts = (4 if backend == "gloo" else 2) * KILLS
                job = Job(self, backend, f"--max-restarts={restarts}")
                self.kill_ranks(job, random.Random(seed))
                self.assertEqual(job.records(), RANKS)
                last = max(step for step, _ in job.steps()) + 100
                job.end_at(last)
                code, text = job.end()
                self.assertEqual(code, 0, text)
                self.assertGreaterEqual(len(re.findall(r"restart \d+ of", text)), KILLS)
                self.assertNotIn("no intact record", text)
                # A survivor may hang in gloo and exit (elastic/_gloo.py). It may be the last one.
                if backend == "muster" or "gloo does not return" not in text:
                    self.assertGreaterEqual(text.count("replacing rank"), KILLS)
                    self.assertNotIn("restarting all workers", text)
                self.check_equal(job.results(), self.undisturbed(backend, last))

    def test_a_rank_dies_when_only_the_others_have_committed(self):
        job = Job(self, "muster", "--max-restarts=1", plan="late", last=20)
        code, text = job.end()
        self.assertEqual((code, text.count("replacing rank 1")), (0, 1), text)
        self.check_equal(job.results(), self.undisturbed("muster", 20))

    def test_a_damaged_record_is_not_loaded(self):
        job = Job(self, "muster", "--max-restarts=1", plan="damaged", last=20)
        code, text = job.end()
        self.assertEqual(code, 0, text)
        self.assertRegex(text, "muster: warning: rank 1 has no intact record of commit [78]; its "
                               "random generators continue from a different state\n")

    def test_a_record_that_does_not_fit(self):
        job = Job(self, "muster", "--max-restarts=1", "--vault-memory=1M", last=20,
                  BALLAST="100000")
        code, text = job.end()
        self.assertNotEqual(code, 0)
        self.assertRegex(text, r"MemoryError: cannot commit: .* need 4\d+ bytes in each of 4 "
                               r"places, but muster provides 87381. Increase --vault-memory.\n")


if __name__ == "__main__":
    unittest.main(verbosity=2)
