# SPDX-License-Identifier: Apache-2.0
"""State in this process: copies that use the memory of earlier commits, random generators, and
their records."""
import collections
import contextlib
import copy
import io
import os
import random
import unittest
from unittest import mock

import numpy as np

import muster
import support  # noqa: F401: runs the checks of tests/support/cases.py
from elastic_others import Others
from muster import elastic
from muster.elastic._copies import ARRAYS, arrays_in, copy_of
from muster.elastic._news import NoNews
from muster.elastic._record import Record

Pair = collections.namedtuple("Pair", "left right")


class Shared(list):
    """Its deep copy is the original."""

    def __deepcopy__(self, memo):
        return self


class Holder:
    def __init__(self, array):
        self.array = array


class Copies(unittest.TestCase):
    def arrays(self):
        table = np.arange(24.0).reshape(4, 6)
        sealed = np.arange(3)
        sealed.flags.writeable = False
        return [np.zeros(3), np.arange(5, dtype=">i2"), np.array(7.0), np.zeros((0, 3)), sealed,
                np.asfortranarray(table), table[::2], table.T, table[::-1],
                np.broadcast_to(table[0], (3, 6)), np.array([(1, 2.5)], "i4,f8"),
                np.array([{"a": [1]}, None], object), np.ma.masked_array([1, 2], [True, False]),
                np.array(["2026-11-29"], "M8[D]"), np.array([b"abc"])]

    def check_like_deepcopy(self, found, value):
        expected = copy.deepcopy(value)
        self.assertEqual(repr(found), repr(expected))
        if isinstance(value, np.ndarray):
            for one in ("dtype", "shape", "strides"):
                self.assertEqual(getattr(found, one), getattr(expected, one))
            self.assertEqual((type(found), found.flags.writeable),
                             (type(expected), expected.flags.writeable))
            self.assertFalse(np.shares_memory(found, value))
            if value.dtype.hasobject:
                self.assertIsNot(found[0], value[0])

    def test_they_are_like_deep_copies(self):
        for value in [*self.arrays(), Pair(np.ones(2), [(np.ones(3),), {"a": np.ones(4)}]),
                      collections.OrderedDict(a=np.ones(1)), Holder(np.ones(2)).__dict__, None]:
            with self.subTest(value=value):
                first = copy_of(value, [], [ARRAYS])
                self.check_like_deepcopy(first, value)
                spare = arrays_in(first, [ARRAYS])
                for each in spare:
                    each[...] = np.zeros((), each.dtype)
                self.check_like_deepcopy(copy_of(value, spare, [ARRAYS]), value)

    def test_arrays_of_another_layout_get_new_memory(self):
        spare = [np.zeros(4), np.zeros((2, 2), order="F"), np.zeros(2, "f4"), np.zeros(2, ">f8")]
        for each in spare:
            value = np.ones(2) if each.ndim == 1 else np.ones((2, 2))
            self.check_like_deepcopy(copy_of(value, [each], [ARRAYS]), value)
            self.assertEqual(np.count_nonzero(each), 0)

    def test_references_are_kept(self):
        array, cycle = np.ones(2), []
        cycle.append(cycle)
        found = copy_of([array, Holder(array), (array, cycle)], [], [ARRAYS])
        self.assertIs(found[0], found[1].array)
        self.assertIs(found[0], found[2][0])
        self.assertIs(found[2][1][0], found[2][1])
        self.assertIsNot(found[0], array)

    def test_a_commit_uses_the_memory_of_the_commit_before_the_last(self):
        array = np.zeros(3)
        state = elastic.State(step=0, arrays={"a": array, "same": (array,)}, odd=[1.5] * 100)
        seen = []
        for step in range(6):
            array[:] = state.step = step
            if step == 3:
                state.arrays = {"more": np.ones(2), **state.arrays, "last": np.ones(3)}
            state.commit()
            seen.append(state._saved.values)
            for number, values in enumerate(seen[-2:], max(0, step - 1)):
                self.assertEqual((values["step"], values["arrays"]["a"].tolist()),
                                 (number, [number] * 3))
                self.assertIs(values["arrays"]["same"][0], values["arrays"]["a"])
        places = [values["arrays"]["a"].ctypes.data for values in seen]
        self.assertEqual(places[2:], places[:-2])
        self.assertEqual(len({*places, array.ctypes.data}), 3)
        state.restore()
        self.assertNotIn(state.arrays["a"].ctypes.data, places)

    def test_values_that_copies_share_are_not_overwritten(self):
        state = elastic.State(shared=Shared([np.ones(2)]), other=np.zeros(2))
        shared = state.shared
        for step in range(4):
            state.shared = [np.full(2, 7.0)] if step else shared
            state.commit()
        self.assertEqual(shared[0].tolist(), [1, 1])

    def test_a_commit_that_fails_keeps_the_last_one(self):
        state = elastic.State(array=np.zeros(2))
        for step in range(4):
            state.array[:] = step
            if step != 2:
                state.commit()
                continue
            with mock.patch.object(state, "_take_local", side_effect=MemoryError):
                self.assertRaises(MemoryError, state.commit)
            state.restore()
            self.assertEqual(state.array.tolist(), [1, 1])
        state.restore()
        self.assertEqual(state.array.tolist(), [3, 3])

    def test_an_interrupted_commit_is_not_overwritten(self):
        state = elastic.State(array=np.zeros(2))
        for step in range(5):
            state.array[:] = step
            with contextlib.suppress(KeyboardInterrupt), \
                    mock.patch("muster.elastic.state.arrays_in",
                               side_effect=KeyboardInterrupt if step == 3 else arrays_in), \
                    mock.patch.object(state, "_take_local",
                                      side_effect=KeyboardInterrupt if step == 4 else dict):
                state.commit()
        with mock.patch.object(state, "_put_local"):
            state.restore()
        self.assertEqual(state.array.tolist(), [3, 3])


def draw():
    return random.random(), random.gauss(0, 1), np.random.rand(), np.random.randn()


class Generators(unittest.TestCase):
    """One rank of two."""

    def setUp(self):
        self.news = NoNews()
        self.news.record = Record(bytearray(1 << 16))

    def sync(self, state, commits):
        """With another rank that has this number of commits. Its operations write nothing."""
        link = Others(commits, {"step": max(commits, 0)})
        link.comm = muster.Communicator.create(None, 0, 1)
        self.addCleanup(link.comm.close)
        link.gather = lambda number: link.comm.barrier() or Others.gather(link, number)
        state._attach(link, self.news, 1)
        state.sync()

    def start(self):
        state = elastic.State(step=0)
        self.sync(state, 0)
        return state

    def test_restore_returns_to_those_of_the_last_commit(self):
        state = elastic.State(step=0)
        for _ in range(2):
            state.commit()
            numbers = draw()
            draw()
            state.restore()
            self.assertEqual(draw(), numbers)

    def check_intent(self, operation):
        """The others commit, and this rank does not: it survives, or it dies."""
        state = self.start()
        draw()
        operation(state.comm)
        numbers = draw()
        for each in (state, elastic.State(step=0)):
            self.sync(each, 1)
            self.assertEqual((each.commits, draw()), (1, numbers))

    def test_operations_write_them(self):
        for operation in (lambda comm: comm.all_reduce(np.zeros(2)),
                          lambda comm: comm.all_gather(np.zeros(2), async_op=True).wait(),
                          lambda comm: comm.barrier(),
                          lambda comm: comm.split(0).all_reduce(np.zeros(2))):
            self.check_intent(operation)

    def test_a_step_of_a_gradient_sync_writes_them_once(self):
        def take_step(comm):
            sync = muster.GradientSync(comm)
            ids = [sync.add(str(each), 3) for each in range(3)]
            sync.finalize()
            with mock.patch.object(self.news.record, "write",
                                   side_effect=self.news.record.write) as write:
                with sync.accumulate():
                    draw()
                    sync.mark_ready(ids[0])
                with sync.step():
                    self.assertEqual(draw() and write.call_count, 0)
                    for each in ids:
                        sync.mark_ready(each)
                self.assertEqual(write.call_count, 1)
        self.check_intent(take_step)

    def test_a_replacement_continues_from_the_last_commit(self):
        state = self.start()
        draw()
        state.commit()
        numbers = draw()
        state.comm.barrier()  # the others have no later commit
        self.sync(elastic.State(step=0), 1)
        self.assertEqual(draw(), numbers)
        self.assertIsNone(self.news.record.read(2))

    def test_without_a_record_it_warns(self):
        for record, expected in ((None, True), (self.news.record, True), ("none wanted", False)):
            with self.subTest(record=record), contextlib.redirect_stderr(io.StringIO()) as said:
                self.news.keeps_records = expected
                self.news.record = record if expected else None
                random.seed(7)
                numbers, _ = draw(), random.seed(7)
                self.sync(elastic.State(step=0), 3)
                self.assertEqual(draw()[0], numbers[0])
                self.assertEqual("no intact record of commit 3" in said.getvalue(), expected)

    def test_a_damaged_record_is_not_loaded(self):
        seed = int(os.environ.get("SEED", random.randrange(2**32)))
        print("SEED", seed)
        state, chance = self.start(), random.Random(seed)
        state.commit()
        record = self.news.record
        first, whole = record._start(1, True), bytes(record._memory)
        for _ in range(100):
            bit = chance.randrange(8 * len(whole[first:].rstrip(b"\0")))
            record._memory[first + bit // 8] ^= 1 << bit % 8
            with mock.patch("pickle.loads", side_effect=AssertionError), \
                    contextlib.redirect_stderr(io.StringIO()) as said:
                self.news.keeps_records = True
                self.sync(elastic.State(step=0), 1)
            self.assertIn("no intact record of commit 1", said.getvalue(), f"{seed}, bit {bit}")
            record._memory[:] = whole


if __name__ == "__main__":
    unittest.main(verbosity=2)
