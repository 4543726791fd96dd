# SPDX-License-Identifier: Apache-2.0
"""How the package reads arrays, DLPack in both directions, and where it looks for the library."""
import array
import ctypes
import gc
import os
import shutil
import subprocess
import sys
import unittest

import numpy

import muster
from muster import _library, dlpack, dtypes, memory
from support import FolderCase, environment


class Prepared(unittest.TestCase):
    """Prepared calls on NumPy arrays are cached; none is used for an array that has changed."""

    def setUp(self):
        self.comm = muster.Communicator.create(None, 0, 1)
        self.addCleanup(self.comm.close)
        self.x = numpy.arange(6, dtype="f4")

    def double(self, x, out=None):
        self.comm.all_reduce(x, "premul_sum", out, scale=2.0)
        return (x if out is None else out).tolist()

    def test_a_loop_makes_its_call_once(self):
        for doubled in (2, 4, 8):
            self.assertEqual(self.double(self.x), [doubled * n for n in range(6)])
        self.assertEqual(len(self.comm._prepared), 1)
        self.comm.all_reduce(self.x, "premul_sum", scale=0.125)  # a different call
        self.assertEqual(self.x.tolist(), list(range(6)))
        out = numpy.zeros(6, "f4")
        for _ in range(2):
            self.assertEqual(self.double(self.x, out), [2 * n for n in range(6)])
        self.assertEqual(self.x.tolist(), list(range(6)))

    def test_an_array_that_has_moved_or_has_another_shape_or_type(self):
        out = numpy.zeros(6, "f4")
        self.double(self.x, out)
        self.x.dtype = "i4"
        with self.assertRaises(muster.InvalidArgument):
            self.double(self.x, out)
        self.x.dtype = "f4"
        self.double(self.x)
        self.x.resize(100_000, refcheck=False)
        self.assertEqual(self.double(self.x)[:7], [0, 4, 8, 12, 16, 20, 0])
        self.assertEqual(self.double(self.x[:2]), [0, 8])
        self.assertEqual(self.x[:3].tolist(), [0, 8, 8])
        self.x.dtype = "i4"
        self.x[:] = 0x3f800001  # doubling it as a float would give another number
        self.assertEqual(self.double(self.x)[-1], 2 * 0x3f800001)

    def test_an_array_that_may_no_longer_be_written(self):
        self.double(self.x)
        self.x.flags.writeable = False
        for out in (None, self.x):
            with self.assertRaisesRegex(muster.InvalidArgument, "read-only"):
                self.double(self.x, out)
        wide = numpy.zeros((4, 4), "f4")
        self.double(wide)
        with self.assertRaisesRegex(muster.InvalidArgument, "not contiguous"):
            self.double(wide.T)

    def test_a_closed_communicator_and_a_wrong_op(self):
        self.double(self.x)
        with self.assertRaisesRegex(muster.InvalidArgument, "unknown op"):
            self.comm.all_reduce(self.x, "median")
        self.comm.close()
        with self.assertRaises(muster.InvalidState):
            self.double(self.x)

    def test_they_are_bounded(self):
        arrays = [numpy.ones(1, "f4") for _ in range(1000)]
        for x in arrays:
            self.assertEqual(self.double(x), [2])
        self.assertLess(len(self.comm._prepared), 300)


class Arrays(unittest.TestCase):
    def test_numpy(self):
        for name, (_, size) in dtypes.TYPES.items():
            typestr = dtypes.to_typestr(name)
            if typestr:
                x = numpy.zeros((2, 3), typestr)
                seen = memory.of(x, writable=True)
                self.assertEqual((seen.data, seen.shape, seen.count, seen.dtype, seen.itemsize),
                                 (x.ctypes.data, (2, 3), 6, name, size))
        self.assertEqual(memory.of(numpy.float32(2)).count, 1)
        self.assertIsNone(memory.of(numpy.zeros(2, ">f4")).dtype)  # foreign byte order: no sums
        self.assertIsNone(memory.of(numpy.zeros(2, "?")).dtype)
        text = memory.of(numpy.array(["ab", "c"]))
        self.assertEqual((text.dtype, text.itemsize), (None, 8))

    def test_buffers(self):
        for letter, name in zip("bBiIqQfd", ("i8", "u8", "i32", "u32", "i64", "u64", "f32", "f64")):
            x = array.array(letter, [1, 2, 3])
            seen = memory.of(x, writable=True)
            self.assertEqual((seen.data, seen.count, seen.dtype), (x.buffer_info()[0], 3, name))
        seen = memory.of(memoryview(bytearray(12)).cast("f", (1, 3)))
        self.assertEqual((seen.shape, seen.dtype), ((1, 3), "f32"))
        self.assertEqual(memory.of((ctypes.c_int64 * 2)()).dtype, "i64")
        self.assertEqual(memory.of(b"").count, 0)

    def test_a_buffer_is_let_go(self):
        x = bytearray(8)
        seen = memory.of(x, writable=True)
        with self.assertRaises(BufferError):
            x.append(1)
        del seen
        gc.collect()
        x.append(1)

    def test_what_is_refused(self):
        for wrong, writable in ((numpy.zeros((4, 4))[:, 1], False), (b"abc", True), ([1], False),
                                (memoryview(b"abcd")[::2], False), (7, False)):
            with self.assertRaises(muster.InvalidArgument):
                memory.of(wrong, writable)

    def test_names_of_types(self):
        for word, name in (("f32", "f32"), ("float32", "f32"), (numpy.float32, "f32"), (int, "i32"),
                           (numpy.dtype("u8"), "u64"), ("torch.bfloat16", "bf16"),
                           ("complex64", None), ("str", None)):
            self.assertEqual(dtypes.find(word), name, word)


class Buckets(unittest.TestCase):
    def setUp(self):
        self.comm = muster.Communicator.create(None, 0, 1)

    def test_numpy_takes_the_capsule_and_lets_it_go(self):
        bucket = self.comm.alloc((2, 3), "i32")
        shown = numpy.from_dlpack(bucket)
        bucket.numpy()[1, 2] = 7
        self.assertEqual(shown.__array_interface__["data"][0], bucket.data)
        self.assertEqual(shown[1, 2], 7)
        self.assertEqual(len(dlpack._alive), 1)
        del shown
        gc.collect()
        self.assertEqual(len(dlpack._alive), 0)

    def test_a_capsule_that_nobody_takes_is_let_go(self):
        bucket = self.comm.alloc(4)
        capsule = bucket.__dlpack__()
        self.assertEqual(len(dlpack._alive), 1)
        del capsule
        gc.collect()
        self.assertEqual(len(dlpack._alive), 0)

    def test_arrays_of_jax_are_never_written(self):
        """Its capsules do not say so. Compiled functions may use the memory again and rely on its
        contents."""
        def exported(module):
            kind = type("ArrayImpl", (), {
                "__module__": module, "__dlpack__": lambda self: bucket.__dlpack__(),
                "__dlpack_device__": lambda self: bucket.__dlpack_device__()})
            return kind()
        bucket = self.comm.alloc(4)
        self.assertEqual(memory.of(exported("cupy"), writable=True).data, bucket.data)
        for module in ("jaxlib._jax", "tensorflow.python.framework.ops"):
            self.assertEqual(memory.of(exported(module), writable=False).data, bucket.data)
            with self.assertRaisesRegex(muster.InvalidArgument, "read-only"):
                memory.of(exported(module), writable=True)

    def test_all_types(self):
        for name, (_, size) in dtypes.TYPES.items():
            if name.startswith("f8"):
                continue
            bucket = self.comm.alloc(5, name)
            self.assertEqual((bucket.nbytes, len(bucket.view())), (5 * size, 5 * size))
            seen = memory.of(bucket, writable=True)
            self.assertEqual((seen.data, seen.dtype, seen.count), (bucket.data, name, 5))
        with self.assertRaises(muster.InvalidArgument):
            self.comm.alloc(5, "complex64")
        with self.assertRaises(muster.InvalidArgument):
            self.comm.alloc(-1)


class Library(FolderCase):
    """Copies of the package in folders as users have them, each in a separate process."""

    def setUp(self):
        super().setUp()
        self.library = os.path.realpath(os.environ[_library.VARIABLE])

    def install(self, package, library):
        shutil.copytree(os.path.dirname(muster.__file__), os.path.join(self.folder, package),
                        ignore=shutil.ignore_patterns("__pycache__"))
        target = os.path.join(self.folder, library)
        os.makedirs(os.path.dirname(target), exist_ok=True)
        os.symlink(self.library, target)
        variables = environment(PYTHONPATH=os.path.dirname(os.path.join(self.folder, package)))
        del variables[_library.VARIABLE]
        return subprocess.run([sys.executable, "-c", "import muster._library as l; print(l.PATH)"],
                              env=variables, text=True, capture_output=True, timeout=60)

    def test_in_its_own_folder(self):
        done = self.install("anywhere/muster", "anywhere/muster/libmuster_collective.so")
        self.assertEqual(done.stdout.strip(),
                         f"{self.folder}/anywhere/muster/libmuster_collective.so", done.stderr)

    def test_in_the_prefix(self):
        done = self.install("prefix/lib/python3/dist-packages/muster",
                            "prefix/lib/libmuster_collective.so.1")
        self.assertEqual(done.stdout.strip(), f"{self.folder}/prefix/lib/libmuster_collective.so.1",
                         done.stderr)

    def test_nowhere(self):
        done = self.install("anywhere/muster", "elsewhere/libmuster_collective.so")
        self.assertIn("ImportError: muster: cannot load libmuster_collective.so.1", done.stderr)
        self.assertIn(_library.VARIABLE, done.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
