# SPDX-License-Identifier: Apache-2.0
"""GradientSync in processes that muster starts, compared with NumPy: the same bits for all bucket
sizes, wire types, accumulation, unused gradients, hooks, errors that name the parameter, other
ranks."""
import gc

import numpy

import muster
from support import JobCase, main, say, worker

SHAPES = {"embedding": (50, 16), "first": (16, 64), "bias": 64, "scale": (), "second": (64, 300),
          "last": 3}
BACKWARD = tuple(reversed(range(len(SHAPES))))
BUCKETS = ({}, {"first_bucket": 64, "bucket_cap": 64}, {"first_bucket": 100, "bucket_cap": 20000},
           {"bucket_cap": 1 << 30, "background": False})


def gradient(rank, id, step=0):
    """The result of this rank's backward pass."""
    shape = list(SHAPES.values())[id]
    return numpy.random.default_rng((rank, id, step)).standard_normal(shape, dtype="f4")


def average(size, id, step=0):
    """Sums in rank order, in f32, as the library computes them."""
    total = gradient(0, id, step)
    for rank in range(1, size):
        total = total + gradient(rank, id, step)
    return total / numpy.float32(size)


def made(comm, **options):
    sync = muster.GradientSync(comm, **options)
    for id, (name, shape) in enumerate(SHAPES.items()):
        assert sync.add(name, shape) == id
    sync.finalize()
    return sync


def backward(sync, rank, step=0, order=BACKWARD):
    for id in order:
        sync.grad(id).numpy()[...] += gradient(rank, id, step)
        sync.mark_ready(id)


def tell(call):
    """Calls the function and prints the error."""
    try:
        call()
    except muster.Error as error:
        say(f"{type(error).__name__} rank {error.rank}: {error}")
        return error
    raise AssertionError("no error")


@worker
def averages():
    with muster.Communicator.from_env() as comm:
        for options in BUCKETS:
            sync = made(comm, **options)
            for step in range(3):
                sync.zero()
                with sync.step():
                    backward(sync, comm.rank, step)
                for id in BACKWARD:
                    got, wanted = sync.grad(id).numpy(), average(comm.size, id, step)
                    assert got.tobytes() == wanted.tobytes(), (options, step, id)
        sums = made(comm, average=False)
        sums.begin()
        backward(sums, comm.rank)
        stats = sums.wait()
        assert stats.buckets == 1 and stats.exposed >= 0 and not stats.moved, stats
        assert stats.bytes >= sum(gradient(0, id).nbytes for id in BACKWARD)
        assert numpy.allclose(sums.grad(0).numpy(), average(comm.size, 0) * comm.size, rtol=1e-4,
                              atol=1e-6)
        say(f"rank {comm.rank} of {comm.size} is done")


@worker
def wires():
    with muster.Communicator.from_env() as comm:
        for wire, step in (("bf16", 2 ** -8), ("f16", 2 ** -11)):
            sync = made(comm, wire=wire)
            with sync.step():
                backward(sync, comm.rank)
            for id in BACKWARD:
                got, exact = sync.grad(id).numpy(), average(comm.size, id)
                # Each is first rounded according to its own size, and the average once after that.
                room = step * (sum(abs(gradient(rank, id)) for rank in range(comm.size)) /
                               comm.size + abs(exact))
                assert (abs(got - exact) <= room).all(), (wire, id)
            assert got.tobytes() != exact.tobytes()
            both = comm.all_gather(sync.grad(0).numpy())
            assert all(row.tobytes() == both[0].tobytes() for row in both)


@worker
def accumulates():
    with muster.Communicator.from_env() as comm:
        sync = made(comm)
        for step in range(2):
            with sync.accumulate():
                backward(sync, comm.rank, step)
            assert sync.grad(0).numpy()[0, 0] == sum(
                gradient(comm.rank, 0, i)[0, 0] for i in range(step + 1))
        with sync.step():
            backward(sync, comm.rank, 2)
        wanted = sum(average(comm.size, 4, step).astype("f8") for step in range(3))
        assert numpy.allclose(sync.grad(4).numpy(), wanted, atol=1e-5)


@worker
def unused():
    with muster.Communicator.from_env() as comm:
        sync = made(comm, owns_memory=False, has_unused=True, average=False)
        mine = [numpy.full(shape, comm.rank + 1, "f4") for shape in SHAPES.values()]
        for id, array in enumerate(mine):
            sync.bind(id, array)
        with sync.step():
            for id in BACKWARD:
                if id == 2 or (id == 4 and comm.rank == 0):
                    sync.mark_unused(id)
                else:
                    sync.mark_ready(id)
        total = sum(range(1, comm.size + 1))
        assert (mine[0] == total).all() and (mine[4] == total - 1).all()
        assert (mine[2] == comm.rank + 1).all() and not sync.used(2) and sync.used(4)
        for wrong in (numpy.zeros(4, "f4"), numpy.zeros(3, "f8"), bytes(12)):
            assert isinstance(tell(lambda: sync.bind(5, wrong)), muster.InvalidArgument)


@worker
def moves():
    with muster.Communicator.from_env() as comm:
        sync = made(comm, reorder=True, first_bucket=64, bucket_cap=4096)
        forward = BACKWARD[::-1]
        for step, order in enumerate((forward if comm.rank == 0 else BACKWARD, forward, forward)):
            sync.zero()
            sync.begin()
            backward(sync, comm.rank, step, order)
            assert sync.wait().moved == (step == 0)
            for id in BACKWARD:
                assert (sync.grad(id).numpy() == average(comm.size, id, step)).all()


@worker
def hooks():
    with muster.Communicator.from_env() as comm:
        def maximum(by, bucket):
            assert by is comm
            seen.append(bucket.dtype)
            work = by.all_reduce(bucket, "max", async_op=len(seen) % 2 == 0)
            return work if len(seen) % 2 == 0 else None
        for wire, dtype in ((None, "f32"), ("bf16", "bf16")):
            seen = []
            sync = made(comm, hook=maximum, wire=wire, first_bucket=64, bucket_cap=4096)
            with sync.step():
                for id in BACKWARD:
                    sync.grad(id).numpy()[...] = comm.rank + 1
                    sync.mark_ready(id)
            assert set(seen) == {dtype} and len(seen) > 2
            assert all((sync.grad(id).numpy() == comm.size).all() for id in BACKWARD)

        def broken(*_):
            raise LookupError("no such bucket")
        sync = made(comm, hook=broken)
        sync.begin()
        for _ in range(2):
            try:
                backward(sync, comm.rank)
                raise AssertionError("no error")
            except LookupError as error:
                say(str(error))
                try:
                    sync.wait()
                except LookupError:
                    sync.begin()
        comm.barrier()  # no damage


@worker
def mistakes():
    with muster.Communicator.from_env() as comm:
        sync = muster.GradientSync(comm)
        sync.add("weights", (3, 4))
        sync.add("bias", 4)
        tell(sync.begin)
        tell(lambda: sync.grad(0))
        sync.finalize()
        tell(lambda: sync.add("late", 1))
        tell(lambda: sync.mark_ready(0))
        tell(lambda: sync.mark_unused(0))
        sync.begin()
        sync.mark_ready(0)
        tell(lambda: sync.mark_ready(0))
        tell(lambda: sync.mark_ready(7))
        tell(sync.wait)
        sync.mark_ready(1)
        assert sync.wait().buckets == 1
        tell(lambda: muster.GradientSync(comm, wire="bf16").add("count", 1, "i32"))
        sync.close()
        sync.close()
        tell(sync.begin)
        other = muster.GradientSync(comm)
        other.add("embedding", 5)
        other.add("head", 5 + comm.rank)
        tell(other.finalize)
        third = muster.GradientSync(comm, average=comm.rank == 0)
        third.add("embedding", 5)
        tell(third.finalize)
        comm.barrier()  # the calls above did not harm it


@worker
def lets_go():
    comm = muster.Communicator.from_env()
    sync = made(comm, bucket_cap=64, first_bucket=64)
    with sync.step():
        backward(sync, comm.rank)
    shown = sync.grad(4).numpy()
    del sync, comm
    gc.collect()
    shown += 1  # the memory lives as long as an array refers to it
    assert (shown == average(2, 4) + 1).all()
    say("alive")


@worker
def let_go():
    comm = muster.Communicator.from_env()
    sync = made(comm, bucket_cap=64, first_bucket=64)
    sync.begin()
    if comm.rank == 1:
        backward(sync, comm.rank, order=BACKWARD[:3])
        raise ArithmeticError("the loss is infinite")

    def rest():
        backward(sync, comm.rank)
        sync.wait()
    tell(rest)


@worker
def goes_on():
    comm = muster.Communicator.from_env()
    sync = made(comm)
    with sync.step():
        backward(sync, comm.rank)
    if comm.rank == 1:
        comm.abort("this rank leaves")
        return
    error = tell(comm.barrier)
    assert error.fatal
    again = comm.rebuild(comm.rank // 2, 2, comm.epoch + 1)
    before = sync.grad(0).numpy()
    sync.rebind(again)
    del comm
    gc.collect()
    assert (sync.grad(0).numpy() == average(3, 0)).all()
    before[0, 0] = 7  # invalid memory, but no crash
    assert (sync.grad(0).numpy() == average(3, 0)).all()
    sync.zero()
    with sync.step():
        backward(sync, again.rank)
    assert (sync.grad(0).numpy() == average(2, 0)).all()
    say("went on")


class Gradients(JobCase):
    def test_the_same_bits_whatever_the_buckets(self):
        for ranks in (1, 2, 4):
            with self.subTest(ranks=ranks):
                self.assertEqual(self.succeed(ranks, "averages"),
                                 [f"rank {rank} of {ranks} is done" for rank in range(ranks)])

    def test_over_tcp(self):
        self.succeed(2, "averages", MUSTER_COLLECTIVE_BACKEND="tcp")

    def test_narrow_types_on_the_wire(self):
        for ranks in (2, 4):
            self.succeed(ranks, "wires")

    def test_accumulating_steps(self):
        self.succeed(2, "accumulates")

    def test_arrays_of_the_caller_and_unused_gradients(self):
        lines = self.succeed(2, "unused")
        self.assertEqual(sum("bind: 'last' is f32[3], but the array is f32[4]" in line
                             for line in lines), 2, lines)

    def test_buckets_are_made_anew_once(self):
        self.succeed(2, "moves")

    def test_hooks(self):
        self.assertEqual(self.succeed(2, "hooks"), ["no such bucket"] * 4)

    def test_mistakes_name_the_parameter(self):
        lines = self.succeed(2, "mistakes")
        wanted = ["finalize was not called", "'late' was added after finalize",
                  "'weights' was marked outside of a step", "requires the option has_unused",
                  "'weights' was marked twice", "no gradient 7",
                  "1 gradient was not marked in this step: 'bias'",
                  "'count' is i32, but with a wire type", "was closed"]
        for text in wanted:
            count = 4 if text.startswith("finalize") else 2
            self.assertEqual(sum(text in line for line in lines), count, (text, lines))
        for rank in range(2):
            self.assertIn(f"Mismatch rank None: GradientSync: parameter 1 'head' f32[{5 + rank}] "
                          f"on rank {rank} differs from that on rank {1 - rank}", lines)
        self.assertEqual(sum("the options (" in line for line in lines), 2, lines)

    def test_memory_lives_as_long_as_it_is_shown(self):
        self.assertEqual(self.succeed(2, "lets_go"), ["alive"] * 2)

    def test_who_lets_go_inside_a_step_ends_it_for_all(self):
        self.assertEqual(self.by_hand(3, "let_go"), [
            ["Aborted rank 1: rank 1 aborted: a GradientSync was freed inside a step"], [],
            ["Aborted rank 1: rank 1 aborted: a GradientSync was freed inside a step"]])

    def test_with_other_ranks_after_a_failure(self):
        lines = self.succeed(3, "goes_on")
        self.assertEqual(lines.count("went on"), 2, lines)


if __name__ == "__main__":
    main()
