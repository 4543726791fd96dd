# SPDX-License-Identifier: Apache-2.0
"""Every operation on every element type, compared with NumPy, in processes that muster starts."""
import array
import ctypes
import itertools

import numpy

import muster
from support import JobCase, main, say, worker

TYPES = ("int8", "uint8", "int32", "uint32", "int64", "uint64", "float16", "float32", "float64")
SIZES = (0, 1, 7, 1024, 70001)
OPS = {"sum": lambda all_of: all_of.sum(0), "prod": lambda all_of: all_of.prod(0),
       "min": lambda all_of: all_of.min(0), "max": lambda all_of: all_of.max(0),
       "avg": lambda all_of: all_of.sum(0) / len(all_of),
       "premul_sum": lambda all_of: (all_of * 0.5).sum(0)}


def inputs(size, count, dtype):
    """The same on every rank: row r is the input of rank r. Small whole numbers, so that every
    result is exact in each type; even ones, so that halves and means over 2 or 4 ranks are
    whole."""
    generator = numpy.random.default_rng(count + 17)
    return (2 * generator.integers(1, 3, (size, count))).astype(dtype)


def expect(got, wanted, what):
    wanted = numpy.asarray(wanted)
    got = numpy.asarray(got)
    if wanted.dtype.kind == "f" and got.dtype.kind in "iu":
        wanted = numpy.trunc(wanted)  # means of integers are rounded towards zero
    tolerance = 2e-3 if got.dtype.itemsize == 2 else 1e-6  # means over 3 ranks are rounded
    assert got.shape == wanted.shape, (what, got.shape, wanted.shape)
    assert numpy.allclose(got.astype("f8"), wanted.astype("f8"), rtol=tolerance), (
        what, got, wanted)


def check_reductions(comm, dtype, count):
    for op, reference in OPS.items():
        if op == "premul_sum" and dtype[0] in "iu":
            continue
        rows = inputs(comm.size, count, dtype)
        wanted, what = reference(rows.astype("f8")), (op, dtype, count)
        extra = {"scale": 0.5} if op == "premul_sum" else {}
        x = rows[comm.rank].copy()
        assert comm.all_reduce(x, op, **extra) is x
        expect(x, wanted, what)
        source, out = rows[comm.rank].copy(), numpy.zeros(count, dtype)
        work = comm.all_reduce(source, op, out, async_op=True, **extra)
        assert work.wait() is out and work.done
        expect(out, wanted, what)
        expect(source, rows[comm.rank], what)
        root = comm.size - 1
        out[:] = 1
        comm.reduce(source, root, op, out, **extra)
        expect(out, wanted if comm.rank == root else numpy.ones(count), what)
        rows = inputs(comm.size, count * comm.size, dtype)
        got = comm.reduce_scatter(rows[comm.rank].copy(), op, **extra)
        wanted = reference(rows.astype("f8"))[comm.rank * count:(comm.rank + 1) * count]
        expect(got, wanted, what)


def check_moves(comm, dtype, count):
    rows, rank, size = inputs(comm.size, count * comm.size, dtype), comm.rank, comm.size
    got = comm.all_gather(rows[rank, :count].copy())
    assert got.shape == (size, count)
    expect(got, rows[:, :count], ("all_gather", dtype))
    work = comm.all_to_all(rows[rank].copy(), async_op=True)
    expect(work.wait(), rows[:, rank * count:(rank + 1) * count].ravel(), ("all_to_all", dtype))
    for root in range(size):
        x = rows[rank].copy()
        assert comm.broadcast(x, root) is x
        expect(x, rows[root], ("broadcast", dtype))
    x = numpy.zeros(count, dtype)
    right, left = (rank + 1) % size, (rank - 1) % size
    if size > 1:
        sent = comm.send(rows[rank, :count].copy(), right, async_op=True)
        comm.recv(x, left)
        sent.wait()
        expect(x, rows[left, :count], ("recv", dtype))
    comm.barrier()


@worker
def all_types():
    with muster.Communicator.from_env() as comm:
        for dtype, count in itertools.product(TYPES, SIZES):
            check_reductions(comm, dtype, count)
            check_moves(comm, dtype, count)
        say(f"rank {comm.rank} of {comm.size} is done")


@worker
def types_that_only_move():
    with muster.Communicator.from_env() as comm:
        for dtype in ("bool", "int16", "complex64", "S3"):
            rows = numpy.arange(2 * comm.size).reshape(comm.size, 2).astype(dtype)
            got = comm.all_gather(rows[comm.rank].copy())
            assert (got == rows).all(), (dtype, got)
        try:
            comm.all_reduce(numpy.zeros(2, "complex64"))
        except muster.InvalidArgument as error:
            say(str(error))


class Foreign:
    """An object that supports only DLPack, like arrays of other frameworks."""

    def __init__(self, values):
        self.array = numpy.asarray(values)

    def __dlpack__(self, **more):
        return self.array.__dlpack__(**more)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


@worker
def every_kind_of_array():
    with muster.Communicator.from_env() as comm:
        twos = (ctypes.c_double * 3)(1, 2, 3)
        table = numpy.arange(6, dtype="f4").reshape(2, 3)
        mine = bytearray(b"\1\2\3")
        foreign = Foreign(numpy.array([1.5, 2.5], "f4"))
        for x in (array.array("f", [1, 2]), array.array("q", [3]), memoryview(mine), twos, table,
                  foreign):
            assert comm.all_reduce(x) is x
        assert bytes(mine) == bytes(comm.size * i for i in (1, 2, 3)), mine
        assert list(twos) == [comm.size * i for i in (1, 2, 3)]
        assert (table == comm.size * numpy.arange(6).reshape(2, 3)).all()
        assert list(foreign.array) == [1.5 * comm.size, 2.5 * comm.size]
        out = bytearray(3 * comm.size)
        comm.all_gather(b"abc", out)  # an input may be read-only
        assert bytes(out) == b"abc" * comm.size
        for wrong in (b"abc", table.T, table[:, 1], [1.0], None):
            try:
                comm.all_reduce(wrong)
            except muster.InvalidArgument as error:
                if comm.rank == 0:
                    say(str(error))
            else:
                raise AssertionError(wrong)


@worker
def buckets():
    with muster.Communicator.from_env() as comm:
        bucket = comm.alloc((4, 1000), "f32")
        shown = bucket.numpy()
        assert shown.shape == (4, 1000) and not shown.any() and bucket.data % 4096 == 0
        shown[:] = comm.rank + 1
        total = sum(range(1, comm.size + 1))
        comm.all_reduce(bucket)  # the bucket itself
        assert (shown == total).all()
        comm.all_reduce(shown[1])  # a part of an array that refers to it
        assert (shown[1] == total * comm.size).all() and (shown[2] == total).all()
        assert (numpy.from_dlpack(bucket) == shown).all()
        bucket.view()[0:4] = b"\0\0\0\0"
        assert shown[0, 0] == 0
        again = comm.alloc(8, "i64")
        again.free()
        for wrong in (again.free, again.numpy):
            try:
                wrong()
            except muster.InvalidState:
                pass
            else:
                raise AssertionError("a freed bucket")
    del bucket, comm
    shown += 1  # the memory outlives the communicator while an array refers to it
    assert (shown[3] == total + 1).all()


@worker
def groups():
    with muster.Communicator.from_env() as comm:
        parity = comm.split(comm.rank % 2, key=-comm.rank)
        members = [rank for rank in range(comm.size) if rank % 2 == comm.rank % 2]
        x = numpy.array([comm.rank], "i8")
        assert list(parity.all_gather(x).ravel()) == members[::-1]
        only_two = comm.split(0 if comm.rank < 2 else -1)
        assert (only_two is None) == (comm.rank >= 2)
        again = comm.rebuild(comm.size - 1 - comm.rank, comm.size, comm.epoch + 1)
        assert again.epoch == comm.epoch + 1
        assert list(again.all_gather(x).ravel()) == list(range(comm.size))[::-1]
        works = [comm.all_reduce(numpy.full(1000, i, "f4"), async_op=True) for i in range(50)]
        other = [again.all_reduce(numpy.full(1000, i, "f4"), async_op=True) for i in range(50)]
        for i, work in list(enumerate(works)) + list(enumerate(other)):
            assert (work.wait() == i * comm.size).all()
        for i in range(20):
            comm.all_reduce(numpy.ones(100000, "f4"), async_op=True)  # dropped: nothing breaks
        assert "rank" in comm.dump() and comm.error is None
        say(repr(comm))


class Operations(JobCase):
    def test_every_type_and_operation(self):
        for ranks in (1, 2, 3):
            with self.subTest(ranks=ranks):
                self.assertEqual(self.succeed(ranks, "all_types"),
                                 [f"rank {rank} of {ranks} is done" for rank in range(ranks)])

    def test_types_without_arithmetic_are_moved(self):
        for line in self.succeed(2, "types_that_only_move"):
            self.assertIn("does not support arithmetic on the array", line)

    def test_every_kind_of_array(self):
        said = self.succeed(2, "every_kind_of_array")
        self.assertEqual(len(said), 5, said)
        self.assertEqual(sum("read-only" in line for line in said), 1, said)
        self.assertEqual(sum("not contiguous" in line for line in said), 2, said)
        self.assertEqual(sum("is not an array" in line for line in said), 2, said)

    def test_buckets_are_shown_and_summed_without_a_copy(self):
        self.succeed(2, "buckets")

    def test_the_same_over_tcp(self):
        said = self.succeed(3, "all_types", MUSTER_COLLECTIVE_BACKEND="tcp")
        self.assertEqual(said, [f"rank {rank} of 3 is done" for rank in range(3)])

    def test_groups_rebuilds_and_many_at_once(self):
        for backend in ("shm", "tcp"):
            self.assertEqual(self.succeed(4, "groups", MUSTER_COLLECTIVE_BACKEND=backend),
                             [f"<muster.Communicator rank {rank} of 4, epoch 0, {backend}>"
                              for rank in range(4)])


if __name__ == "__main__":
    main()
