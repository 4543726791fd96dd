# SPDX-License-Identifier: Apache-2.0
"""The types in the package's annotations, for use in your own annotations.

    from muster.typing import Array
    def average(comm: muster.Communicator, x: Array) -> None: ...
"""
from __future__ import annotations

import array
import ctypes
from typing import Any, Literal, Mapping, Protocol, Tuple, Union


class SupportsArrayInterface(Protocol):
    """NumPy arrays and scalars, and array-likes."""

    @property
    def __array_interface__(self) -> Mapping[str, Any]: ...


class SupportsCudaArrayInterface(Protocol):
    """Arrays on GPUs: Numba, CuPy, PyCUDA."""

    @property
    def __cuda_array_interface__(self) -> Mapping[str, Any]: ...


class SupportsDLPack(Protocol):
    """Arrays that exchange memory through DLPack: torch, JAX, CuPy, views of this package."""

    def __dlpack__(self, *, stream: Any = ...) -> Any: ...

    def __dlpack_device__(self) -> Tuple[Any, Any]: ...


# Any object that operations accept as a buffer.
Array = Union[SupportsArrayInterface, SupportsCudaArrayInterface, SupportsDLPack, bytes, bytearray,
              memoryview, "array.array[Any]", "ctypes.Array[Any]"]

# "f32", "float32", numpy.float32, numpy.dtype("float32"), torch.float32 and so on.
DType = Union[str, type, Any]
# The extents of an array in elements; an int is a single extent.
Shape = Union[int, Tuple[int, ...]]
Op = Literal["sum", "prod", "max", "min", "avg", "premul_sum"]
Backend = Literal["auto", "shm", "tcp", "hier", "nccl"]


class SupportsCudaStream(Protocol):
    """torch.cuda.Stream and stream-like objects."""

    @property
    def cuda_stream(self) -> int: ...


# A CUDA stream: its handle (a CUstream), or an object that contains the handle.
Stream = Union[int, SupportsCudaStream]
