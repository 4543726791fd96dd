# SPDX-License-Identifier: Apache-2.0
"""Converts tensors for the C ABI: contiguous, with a number for the element type."""
from __future__ import annotations

from typing import Any, Callable, Iterator, Optional, Sequence, Tuple

import torch

from .. import _library as c
from .. import dtypes, errors

# Maps a torch.dtype to its number in the C ABI, for types that the library has arithmetic for.
_NUMBERS = {getattr(torch, long): dtypes.TYPES[name][0] for long, name in (
    ("int8", "i8"), ("uint8", "u8"), ("int32", "i32"), ("int64", "i64"), ("float16", "f16"),
    ("float32", "f32"), ("float64", "f64"), ("bfloat16", "bf16"), ("uint32", "u32"),
    ("uint64", "u64")) if hasattr(torch, long)}
_BYTE = _NUMBERS[torch.uint8]

Tensors = Sequence[torch.Tensor]
# Called after an operation to copy its result to the caller's tensors. None if no copy is needed.
CopyBack = Optional[Callable[[], None]]


def data_buffer(tensor: torch.Tensor) -> c.CBuffer:
    """A tensor's buffer for operations that only move data. Types that the library lacks are sent
    as bytes."""
    number = _NUMBERS.get(tensor.dtype)
    if number is None:
        return c.CBuffer(tensor.data_ptr(), tensor.numel() * tensor.element_size(), _BYTE, c.HOST)
    return c.CBuffer(tensor.data_ptr(), tensor.numel(), number, c.HOST)


def number_buffer(tensor: torch.Tensor) -> c.CBuffer:
    """A tensor's buffer for reductions; booleans are sent as bytes."""
    number = _BYTE if tensor.dtype is torch.bool else _NUMBERS.get(tensor.dtype)
    if number is None:
        raise errors.Unsupported(f"muster does not support arithmetic on {tensor.dtype}")
    return c.CBuffer(tensor.data_ptr(), tensor.numel(), number, c.HOST)


def flat_view(tensors: Tensors) -> Optional[torch.Tensor]:
    """A flat tensor over all tensors if they are adjacent in memory, else None."""
    first = tensors[0]
    end = first.data_ptr()
    for tensor in tensors:
        if not tensor.is_contiguous() or tensor.data_ptr() != end:
            return None
        end += tensor.numel() * tensor.element_size()
    count = sum(tensor.numel() for tensor in tensors)
    return first.detach().as_strided((count,), (1,)) if _fits(first, count) else None


def _fits(tensor: torch.Tensor, count: int) -> bool:
    """Whether the storage holds `count` elements from the tensor's start. Adjacent tensors may have
    separate storages, which a view cannot span."""
    storage = tensor.untyped_storage() if hasattr(tensor, "untyped_storage") else tensor.storage()
    return bool((tensor.storage_offset() + count) * tensor.element_size() <= storage.nbytes())


def flattened(tensors: Tensors) -> torch.Tensor:
    """One flat tensor with the contents of all tensors; makes no copy if they are adjacent."""
    view = flat_view(tensors)
    return view if view is not None else torch.cat(
        [tensor.detach().reshape(-1) for tensor in tensors])


def flat_output(tensors: Tensors) -> Tuple[torch.Tensor, CopyBack]:
    """A flat tensor for a result, and the function that copies it to the tensors."""
    view = flat_view(tensors)
    if view is not None:
        return view, None
    flat = tensors[0].new_empty(sum(tensor.numel() for tensor in tensors))
    return flat, copy_from(flat, tensors)


def copy_from(flat: torch.Tensor, tensors: Tensors) -> Callable[[], None]:
    """A function that copies the contents of a flat tensor to the tensors, in order."""
    def copy_back() -> None:
        at = 0
        for tensor in tensors:
            write(tensor, flat[at:at + tensor.numel()])
            at += tensor.numel()
    return copy_back


def write(tensor: torch.Tensor, values: torch.Tensor) -> None:
    """Copies values. Also works outside inference mode for tensors created in it."""
    values = values.view(tensor.shape)
    if tensor.is_inference():
        with torch.inference_mode():
            tensor.copy_(values)
    else:
        tensor.detach().copy_(values)


def all_of(args: Any) -> Iterator[torch.Tensor]:
    """All tensors among the arguments, including those in lists."""
    for arg in args:
        if isinstance(arg, torch.Tensor):
            yield arg
        elif isinstance(arg, (list, tuple)):
            yield from all_of(arg)
