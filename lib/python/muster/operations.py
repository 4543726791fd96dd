# SPDX-License-Identifier: Apache-2.0
"""Operations: the collective operations of a communicator."""
from __future__ import annotations

import sys
from ctypes import sizeof
from typing import Any, Dict, Literal, Optional, Tuple, TypeVar, overload

from . import _library as c
from . import dtypes, errors, memory
from .typing import Array, Op
from .work import Work

_U8 = dtypes.TYPES["u8"][0]
NO_BUFFER = c.CBuffer(None, 0, dtypes.TYPES["f32"][0], c.HOST)
_ABSENT: Any = object()  # the operation has no such buffer
_PREPARED_MAX = 256  # cached calls per communicator

A = TypeVar("A", bound=Array)
B = TypeVar("B", bound=Array)
Timeout = Optional[float]
No = Literal[False]
Yes = Literal[True]


def nanoseconds(seconds: Timeout) -> int:
    """Converts a timeout in seconds to nanoseconds for the C ABI, where 0 means the default."""
    return 0 if seconds is None else max(1, int(seconds * 1e9))


class Operations:
    """The operations of a Communicator. The docstring of Communicator lists the rules that apply to
    all operations."""

    size: int

    def __init__(self) -> None:
        # Cached calls on NumPy arrays, keyed by all their inputs. A loop over the same arrays
        # builds each call once; an array that was moved or reshaped has a different key.
        self._prepared: Dict[Tuple[Any, ...], c.CCall] = {}

    def start(self, call: c.CCall, value: Any = None, keep: Any = ()) -> Any:
        raise NotImplementedError

    @overload
    def all_reduce(self, x: A, op: Op = ..., out: None = ..., *, scale: float = ...,
                   timeout: Timeout = ..., async_op: No = ...) -> A: ...

    @overload
    def all_reduce(self, x: Array, op: Op, out: B, *, scale: float = ..., timeout: Timeout = ...,
                   async_op: No = ...) -> B: ...

    @overload
    def all_reduce(self, x: Array, op: Op = ..., *, out: B, scale: float = ...,
                   timeout: Timeout = ..., async_op: No = ...) -> B: ...

    @overload
    def all_reduce(self, x: Array, op: Op = ..., out: Optional[Array] = ..., *, scale: float = ...,
                   timeout: Timeout = ..., async_op: Yes) -> Work: ...

    @overload
    def all_reduce(self, x: Array, op: Op = ..., out: Optional[Array] = ..., *, scale: float = ...,
                   timeout: Timeout = ..., async_op: bool) -> Any: ...

    def all_reduce(self, x: Any, op: Op = "sum", out: Any = None, *, scale: float = 1.0,
                   timeout: Timeout = None, async_op: bool = False) -> Any:
        """Reduces x element-wise across all ranks; every rank receives the result.

        x: the same count and dtype on all ranks. out: the array for the result, with the count and
        dtype of x; if None, the result replaces x. scale: for "premul_sum". Returns out, or x if
        out is None.
        """
        out = x if out is None else out
        return self._run(c.ALL_REDUCE, x, out, op=op, scale=scale, timeout=timeout,
                         async_op=async_op)

    @overload
    def reduce(self, x: A, root: int = ..., op: Op = ..., out: None = ..., *, scale: float = ...,
               timeout: Timeout = ..., async_op: No = ...) -> A: ...

    @overload
    def reduce(self, x: Array, root: int, op: Op, out: B, *, scale: float = ...,
               timeout: Timeout = ..., async_op: No = ...) -> B: ...

    @overload
    def reduce(self, x: Array, root: int = ..., op: Op = ..., *, out: B, scale: float = ...,
               timeout: Timeout = ..., async_op: No = ...) -> B: ...

    @overload
    def reduce(self, x: Array, root: int = ..., op: Op = ..., out: Optional[Array] = ..., *,
               scale: float = ..., timeout: Timeout = ..., async_op: Yes) -> Work: ...

    @overload
    def reduce(self, x: Array, root: int = ..., op: Op = ..., out: Optional[Array] = ..., *,
               scale: float = ..., timeout: Timeout = ..., async_op: bool) -> Any: ...

    def reduce(self, x: Any, root: int = 0, op: Op = "sum", out: Any = None, *, scale: float = 1.0,
               timeout: Timeout = None, async_op: bool = False) -> Any:
        """Like all_reduce, but only rank `root` receives the result. On the other ranks, out (or x
        if out is None) is not written. Returns out, or x if out is None."""
        out = x if out is None else out
        return self._run(c.REDUCE, x, out, op=op, root=root, scale=scale, timeout=timeout,
                         async_op=async_op)

    @overload
    def broadcast(self, x: A, root: int = ..., *, timeout: Timeout = ...,
                  async_op: No = ...) -> A: ...

    @overload
    def broadcast(self, x: Array, root: int = ..., *, timeout: Timeout = ...,
                  async_op: Yes) -> Work: ...

    @overload
    def broadcast(self, x: Array, root: int = ..., *, timeout: Timeout = ...,
                  async_op: bool) -> Any: ...

    def broadcast(self, x: Any, root: int = 0, *, timeout: Timeout = None,
                  async_op: bool = False) -> Any:
        """Copies x from rank `root` into x on every other rank.

        x: the same count and dtype on all ranks; read on the root, overwritten elsewhere. Returns
        x."""
        return self._run(c.BROADCAST, _ABSENT, x, root=root, timeout=timeout, async_op=async_op)

    @overload
    def all_gather(self, x: A, out: None = ..., *, timeout: Timeout = ...,
                   async_op: No = ...) -> A: ...

    @overload
    def all_gather(self, x: Array, out: B, *, timeout: Timeout = ..., async_op: No = ...) -> B: ...

    @overload
    def all_gather(self, x: Array, out: Optional[Array] = ..., *, timeout: Timeout = ...,
                   async_op: Yes) -> Work: ...

    @overload
    def all_gather(self, x: Array, out: Optional[Array] = ..., *, timeout: Timeout = ...,
                   async_op: bool) -> Any: ...

    def all_gather(self, x: Any, out: Any = None, *, timeout: Timeout = None,
                   async_op: bool = False) -> Any:
        """Concatenates the x of all ranks in rank order; every rank receives the result.

        x: the same count and dtype on all ranks. out: `size` times as many elements as x, of the
        same dtype; x may be this rank's part of it. If out is None, a new array of shape
        (size, *x.shape) is allocated; x must then be a NumPy array or a torch tensor. Returns out.
        """
        if out is None:
            out = _new_like(x, (self.size, *memory.of(x).shape))
        return self._run(c.ALL_GATHER, x, out, timeout=timeout, async_op=async_op)

    @overload
    def reduce_scatter(self, x: A, op: Op = ..., out: None = ..., *, scale: float = ...,
                       timeout: Timeout = ..., async_op: No = ...) -> A: ...

    @overload
    def reduce_scatter(self, x: Array, op: Op, out: B, *, scale: float = ...,
                       timeout: Timeout = ..., async_op: No = ...) -> B: ...

    @overload
    def reduce_scatter(self, x: Array, op: Op = ..., *, out: B, scale: float = ...,
                       timeout: Timeout = ..., async_op: No = ...) -> B: ...

    @overload
    def reduce_scatter(self, x: Array, op: Op = ..., out: Optional[Array] = ..., *,
                       scale: float = ..., timeout: Timeout = ..., async_op: Yes) -> Work: ...

    @overload
    def reduce_scatter(self, x: Array, op: Op = ..., out: Optional[Array] = ..., *,
                       scale: float = ..., timeout: Timeout = ..., async_op: bool) -> Any: ...

    def reduce_scatter(self, x: Any, op: Op = "sum", out: Any = None, *, scale: float = 1.0,
                       timeout: Timeout = None, async_op: bool = False) -> Any:
        """Reduces x element-wise across all ranks and splits the result into `size` equal parts;
        rank r receives part r.

        x: the same count and dtype on all ranks; the count is a multiple of size. out: 1/size as
        many elements as x, of the same dtype; it may be part `rank` of x. If out is None, a new
        array of shape (x.shape[0] / size, *x.shape[1:]) is allocated; x must then be a NumPy array
        or a torch tensor. Returns out.
        """
        if out is None:
            shape = memory.of(x).shape
            if not shape or shape[0] % self.size != 0:
                raise errors.InvalidArgument(f"reduce_scatter: the first dimension of shape "
                                             f"{shape} is not a multiple of the {self.size} ranks")
            out = _new_like(x, (shape[0] // self.size, *shape[1:]))
        return self._run(c.REDUCE_SCATTER, x, out, op=op, scale=scale, timeout=timeout,
                         async_op=async_op)

    @overload
    def all_to_all(self, x: A, out: None = ..., *, timeout: Timeout = ...,
                   async_op: No = ...) -> A: ...

    @overload
    def all_to_all(self, x: Array, out: B, *, timeout: Timeout = ..., async_op: No = ...) -> B: ...

    @overload
    def all_to_all(self, x: Array, out: Optional[Array] = ..., *, timeout: Timeout = ...,
                   async_op: Yes) -> Work: ...

    @overload
    def all_to_all(self, x: Array, out: Optional[Array] = ..., *, timeout: Timeout = ...,
                   async_op: bool) -> Any: ...

    def all_to_all(self, x: Any, out: Any = None, *, timeout: Timeout = None,
                   async_op: bool = False) -> Any:
        """Sends part j of this rank's x to rank j, where it becomes part `rank` of out.

        x: `size` equal parts; the same count and dtype on all ranks. out: the same count and dtype
        as x; must not overlap x. If out is None, a new array like x is allocated; x must then be a
        NumPy array or a torch tensor. Returns out.
        """
        if out is None:
            out = _new_like(x, memory.of(x).shape)
        return self._run(c.ALL_TO_ALL, x, out, timeout=timeout, async_op=async_op)

    @overload
    def send(self, x: Array, to: int, *, timeout: Timeout = ..., async_op: No = ...) -> None: ...

    @overload
    def send(self, x: Array, to: int, *, timeout: Timeout = ..., async_op: Yes) -> Work: ...

    @overload
    def send(self, x: Array, to: int, *, timeout: Timeout = ..., async_op: bool) -> Any: ...

    def send(self, x: Any, to: int, *, timeout: Timeout = None, async_op: bool = False) -> Any:
        """Sends x to rank `to`, which calls recv with the same count and dtype. Messages between
        two ranks arrive in order; other ranks are not involved."""
        return self._run(c.SEND, x, _ABSENT, root=to, timeout=timeout, async_op=async_op)

    @overload
    def recv(self, x: A, source: int, *, timeout: Timeout = ..., async_op: No = ...) -> A: ...

    @overload
    def recv(self, x: Array, source: int, *, timeout: Timeout = ..., async_op: Yes) -> Work: ...

    @overload
    def recv(self, x: Array, source: int, *, timeout: Timeout = ..., async_op: bool) -> Any: ...

    def recv(self, x: Any, source: int, *, timeout: Timeout = None, async_op: bool = False) -> Any:
        """Receives x from rank `source`. Returns x."""
        return self._run(c.RECV, _ABSENT, x, root=source, timeout=timeout, async_op=async_op)

    def barrier(self, timeout: Timeout = None) -> None:
        """Returns when all ranks have called it."""
        self.start(c.CCall(sizeof(c.CCall), c.BARRIER, 0, -1, 0, NO_BUFFER, NO_BUFFER,
                           nanoseconds(timeout), 1.0, None))

    def _run(self, kind: int, x: Any, out: Any, *, op: Optional[str] = None, root: int = -1,
             scale: float = 1.0, timeout: Timeout = None, async_op: bool = False) -> Any:
        key = None if async_op else _key_of(x, out)
        if key is not None:
            key = (kind, op, root, scale, timeout, *key)
            call = self._prepared.get(key)
            if call is not None:
                return self.start(call, out)
        if op is not None and op not in c.OPS:
            raise errors.InvalidArgument(f"unknown op '{op}'; choose one of " + ", ".join(c.OPS))
        target = None if out is _ABSENT else memory.of(out, writable=True)
        source = target if out is x else None if x is _ABSENT else memory.of(x)
        ordered_by = source or target
        call = c.CCall(sizeof(c.CCall), kind, c.OPS[op] if op else 0, root, 1 if async_op else 0,
                       _buffer(source, op), _buffer(target, op), nanoseconds(timeout), scale,
                       ordered_by.stream if ordered_by else None)
        if key is not None:
            if len(self._prepared) >= _PREPARED_MAX:
                self._prepared.clear()
            self._prepared[key] = call
        return self.start(call, None if out is _ABSENT else out, (source, target))


def _key_of(x: Any, out: Any) -> Optional[Tuple[Any, ...]]:
    """The cache key of a call on these arrays. None if they are not contiguous NumPy arrays, or if
    the type's name is ambiguous (ml_dtypes)."""
    numpy = sys.modules.get("numpy")
    if numpy is None or type(out) is not numpy.ndarray:
        return None
    about = out.__array_interface__
    target = about["data"], about["typestr"], about["shape"]
    if about["strides"] is not None or target[1][1] == "V":
        return None
    if x is out:
        return target
    if x is _ABSENT:
        return (*target, None)
    if type(x) is not numpy.ndarray:
        return None
    about = x.__array_interface__
    if about["strides"] is not None or about["typestr"] != target[1]:
        return None
    return (*target, about["data"], about["shape"])


def _buffer(of: Optional[memory.Memory], op: Optional[str]) -> c.CBuffer:
    """The buffer with the call's dtype for the C ABI. In operations without arithmetic, types that
    muster does not know are sent as bytes."""
    if of is None:
        return NO_BUFFER
    if of.dtype is not None:
        return c.CBuffer(of.data, of.count, dtypes.TYPES[of.dtype][0], of.device)
    if op is not None:
        raise errors.InvalidArgument("muster does not support arithmetic on the array's element "
                                     "type; use one of " + ", ".join(dtypes.TYPES))
    return c.CBuffer(of.data, of.count * of.itemsize, _U8, of.device)


def _new_like(x: Any, shape: Tuple[int, ...]) -> Any:
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(x, torch.Tensor):
        return x.new_empty(shape)
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(x, numpy.ndarray):
        return numpy.empty(shape, x.dtype)
    raise errors.InvalidArgument("can allocate a result only for NumPy arrays and torch tensors, "
                                 f"not for {type(x).__name__}: pass out=")
