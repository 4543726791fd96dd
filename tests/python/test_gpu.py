# SPDX-License-Identifier: Apache-2.0
"""Arrays on GPUs, over the strict fakes of CUDA and NCCL (tests/nccl/fakes): DLPack and
__cuda_array_interface__ of other libraries, buckets, GradientSync. FAKES is the folder of the
fakes."""
import ctypes
import os
import sys
import tempfile
import types

import numpy

import muster
from muster import dlpack, dtypes, memory
from support import JobCase, main, say, worker

FAKES = os.environ["FAKES"]


class Foreign:
    """Memory on a GPU, as exported by another library."""

    def __init__(self, bucket):
        self.bucket, self.asked = bucket, []


class OfDlpack(Foreign):
    def __dlpack_device__(self):
        return dlpack.CUDA, self.bucket.device

    def __dlpack__(self, stream=None):
        self.asked.append(stream)
        b = self.bucket
        return dlpack.make(b, b.data, b.shape, dtypes.to_dlpack(b.dtype), b.device)


class OfInterface(Foreign):
    strides, read_only, stream = None, False, 1

    @property
    def __cuda_array_interface__(self):
        b = self.bucket
        return {"version": 3, "shape": b.shape, "typestr": dtypes.to_typestr(b.dtype),
                "strides": self.strides, "data": (b.data, self.read_only), "stream": self.stream}


def on_host(x, count, dtype="f4"):
    """The fakes' GPU memory is ordinary memory. Operations on it must have been waited for."""
    return numpy.frombuffer((ctypes.c_char * (count * numpy.dtype(dtype).itemsize))
                            .from_address(x.data), dtype)


def filled(comm, device, value, shape=(3, 50), dtype="f32"):
    bucket = comm.alloc(shape, dtype, device=device)
    on_host(bucket, bucket.size, dtypes.to_typestr(dtype))[:] = value
    return bucket


@worker
def arrays():
    with muster.Communicator.from_env() as comm:
        total = comm.size * (comm.size + 1) / 2
        for kind in (OfDlpack, OfInterface):
            for dtype in ("f32", "f64", "i32", "f16"):
                bucket = filled(comm, comm.rank, comm.rank + 1, dtype=dtype)
                x = kind(bucket)
                seen = memory.of(x, writable=True)
                assert (seen.data, seen.shape, seen.dtype, seen.device, seen.stream) == (
                    bucket.data, (3, 50), dtype, comm.rank, None), kind
                comm.all_reduce(x, async_op=True).wait()
                tensor, _ = dlpack.read(bucket.__dlpack__())
                assert (tensor.device_type, tensor.device_id) == bucket.__dlpack_device__() == (
                    dlpack.CUDA, comm.rank)
                got = on_host(bucket, 150, dtypes.to_typestr(dtype))
                assert (got == total).all(), (kind, dtype, got)
                assert kind is not OfDlpack or set(x.asked) == {1}, x.asked  # the default stream
            x = filled(comm, comm.rank, comm.rank + 1)
            everybodys = filled(comm, comm.rank, 0, (comm.size, 3, 50))
            comm.all_gather(kind(x), kind(everybodys), async_op=True).wait()
            assert (on_host(everybodys, 150 * comm.size).reshape(comm.size, -1).T ==
                    numpy.arange(1, comm.size + 1)).all()
        say(f"rank {comm.rank} of {comm.size} is done")


def refusal(call):
    try:
        call()
    except muster.Error as error:
        return f"{type(error).__name__}: {error}"
    raise AssertionError("not refused")


@worker
def refused():
    with muster.Communicator.from_env() as comm:
        x = OfInterface(filled(comm, 0, 1))
        x.strides = (200, 4)  # which is contiguous
        assert memory.of(x).count == 150
        x.strides = (4, 12)
        say(refusal(lambda: memory.of(x)))
        x.strides, x.read_only = None, True
        assert memory.of(x).count == 150
        say(refusal(lambda: comm.all_reduce(x)))
        x.read_only, x.stream = False, 4096
        assert memory.of(x).stream == 4096
        host = Foreign(numpy.zeros(3))
        host.__cuda_array_interface__ = {**x.__cuda_array_interface__,
                                         "data": (host.bucket.ctypes.data, False)}
        say(refusal(lambda: comm.all_reduce(host)))
        say(refusal(lambda: comm.all_reduce(x.bucket, out=numpy.zeros((3, 50), "f4"))))


@worker
def gradients():
    with muster.Communicator.from_env() as comm:
        sync = muster.GradientSync(comm, device=comm.rank, first_bucket=64, bucket_cap=4096)
        for name, shape in (("a", (10, 10)), ("b", 700), ("c", ())):
            sync.add(name, shape)
        sync.finalize()
        for step in range(3):
            sync.begin()
            for id, size in ((2, 1), (1, 700), (0, 100)):
                on_host(sync.grad(id), size)[:] = (comm.rank + 1) * (id + 1) + step
                sync.mark_ready(id)
            stats = sync.wait()
            assert stats.buckets >= 2, stats
            for id, size in ((0, 100), (1, 700), (2, 1)):
                got = on_host(sync.grad(id), size)
                wanted = (comm.size + 1) / 2 * (id + 1) + step
                assert (got == numpy.float32(wanted)).all(), (step, id, got[:3], wanted)
        say(f"rank {comm.rank} of {comm.size} is done")


@worker
def beside_torch():
    """A PyTorch without CUDA is not asked for streams."""
    def current_stream(_):
        raise AssertionError("Torch not compiled with CUDA enabled")
    cuda = types.SimpleNamespace(is_initialized=lambda: False, current_stream=current_stream)
    sys.modules["torch"] = types.SimpleNamespace(cuda=cuda, Tensor=type("Tensor", (), {}))
    gradients()


@worker
def bound():
    """Gradients in another library's arrays. Their small numbers stay exact as bf16."""
    with muster.Communicator.from_env() as comm:
        for wire in (None, "bf16", "f16"):
            arrays = [OfInterface(filled(comm, comm.rank, 0, (size,))) for size in (700, 1)]
            sync = muster.GradientSync(comm, device=comm.rank, owns_memory=False, wire=wire)
            for array in arrays:
                sync.add("x", array.bucket.shape)
            sync.finalize()
            for id, array in enumerate(arrays):
                sync.bind(id, array)
            for step in range(2):
                for array in arrays:
                    on_host(array.bucket, array.bucket.size)[:] = (comm.rank + 1) * (step + 1)
                with sync.step():
                    for id in (1, 0):
                        sync.mark_ready(id)
                for array in arrays:
                    got = on_host(array.bucket, array.bucket.size)
                    assert (got == (comm.size + 1) / 2 * (step + 1)).all(), (wire, step, got)
            text = refusal(lambda: sync.bind(1, numpy.zeros(1, "f4")))
            assert text == ("InvalidArgument: bind: the array is on the host, but the gradients "
                            f"are on GPU {comm.rank}"), text
        on_the_host = muster.GradientSync(comm, owns_memory=False)
        on_the_host.add("x", 1)
        on_the_host.finalize()
        text = refusal(lambda: on_the_host.bind(0, arrays[1]))
        assert text == (f"InvalidArgument: bind: the array is on GPU {comm.rank}, but the "
                        "gradients are on the host"), text
        say(f"rank {comm.rank} of {comm.size} is done")


@worker
def unused():
    with muster.Communicator.from_env() as comm:
        sync = muster.GradientSync(comm, device=comm.rank, has_unused=True, average=False)
        for name in "ab":
            sync.add(name, 100)
        sync.finalize()
        for id in range(2):
            on_host(sync.grad(id), 100)[:] = comm.rank + 1
        sync.begin()
        sync.mark_ready(1)
        (sync.mark_unused if comm.rank == 0 else sync.mark_ready)(0)
        sync.wait()
        sums = comm.size * (comm.size + 1) / 2
        for id, wanted in ((0, sums - 1), (1, sums)):
            assert (on_host(sync.grad(id), 100) == wanted).all(), (id, on_host(sync.grad(id), 3))
        sync.zero()
        comm.all_reduce(filled(comm, comm.rank, 1), async_op=True).wait()  # after the zeros
        assert all((on_host(sync.grad(id), 100) == 0).all() for id in range(2))
        say(f"rank {comm.rank} of {comm.size} is done")


class OnGpus(JobCase):
    def run_on_fakes(self, ranks, name):
        with tempfile.TemporaryDirectory(prefix="muster-test-") as folder:
            return self.succeed(ranks, name, MUSTER_CUDA_LIBRARY=f"{FAKES}/libcuda.so.1",
                                MUSTER_NCCL_LIBRARY=f"{FAKES}/libnccl.so.2",
                                MUSTER_FAKE_CUDA_DEVICES="4", MUSTER_FAKE_NCCL_DIR=folder)

    def assert_done(self, ranks, name):
        self.assertEqual(self.run_on_fakes(ranks, name),
                         [f"rank {rank} of {ranks} is done" for rank in range(ranks)])

    def test_arrays_of_other_libraries(self):
        for ranks in (1, 3):
            with self.subTest(ranks=ranks):
                self.assert_done(ranks, "arrays")

    def test_gradients(self):
        for ranks in (1, 2):
            with self.subTest(ranks=ranks):
                self.assert_done(ranks, "gradients")
        self.assert_done(1, "beside_torch")

    def test_gradients_in_arrays_of_the_caller(self):
        self.assert_done(2, "bound")

    def test_unused_gradients_and_zeros(self):
        self.assert_done(2, "unused")

    def test_what_is_refused(self):
        words = "\n".join(self.run_on_fakes(1, "refused"))
        self.assertIn("InvalidArgument: the array is not contiguous", words)
        self.assertIn("InvalidArgument: the array is read-only", words)
        self.assertIn("Unsupported: the CUDA driver does not recognize memory at 0x", words)
        self.assertEqual(words.count("\n"), 3, words)


if __name__ == "__main__":
    main()
