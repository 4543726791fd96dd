# SPDX-License-Identifier: Apache-2.0
"""Tensors as the C ABI wants them: contiguous, with a number for their type."""
import torch

from .. import _library as c
from .. import dtypes, errors

# torch.dtype: number in the C ABI, for what the library computes with.
_NUMBERS = {getattr(torch, long): dtypes.TYPES[name][0] for long, name in (
    ("int8", "i8"), ("uint8", "u8"), ("int32", "i32"), ("int64", "i64"), ("float16", "f16"),
    ("float32", "f32"), ("float64", "f64"), ("bfloat16", "bf16"), ("uint32", "u32"),
    ("uint64", "u64")) if hasattr(torch, long)}
_BYTE = _NUMBERS[torch.uint8]


def check(tensors):
    """Refuses what is not on the CPU or not dense."""
    for tensor in tensors:
        if tensor.device.type != "cpu":
            raise errors.Unsupported(f'the back end "muster" has CPU tensors only, this one is on '
                                     f'{tensor.device}')
        if tensor.layout is not torch.strided:
            raise errors.Unsupported(f"the operation takes dense tensors only, this one is "
                                     f"{tensor.layout}")


def only(tensors, what):
    """The tensor of a list of one."""
    if len(tensors) != 1:
        raise errors.InvalidArgument(f"{what}: one tensor a rank is wanted, not {len(tensors)}")
    check(tensors)
    return tensors[0]


def moved(tensor):
    """For operations that compute nothing: any type goes, as bytes if need be."""
    number = _NUMBERS.get(tensor.dtype)
    if number is None:
        return c.CBuffer(tensor.data_ptr(), tensor.numel() * tensor.element_size(), _BYTE, c.HOST)
    return c.CBuffer(tensor.data_ptr(), tensor.numel(), number, c.HOST)


def summed(tensor):
    """For operations that compute; truth values are bytes."""
    number = _BYTE if tensor.dtype is torch.bool else _NUMBERS.get(tensor.dtype)
    if number is None:
        raise errors.Unsupported(f"muster computes with no {tensor.dtype}")
    return c.CBuffer(tensor.data_ptr(), tensor.numel(), number, c.HOST)


def same(tensors, count, dtype, what):
    """Refuses lists whose tensors are not alike."""
    for tensor in tensors:
        if tensor.numel() != count or tensor.dtype is not dtype:
            raise errors.InvalidArgument(f"{what}: tensors of one size and type are wanted, here "
                                         f"are {tensor.numel()} x {tensor.dtype} and {count} x "
                                         f"{dtype}")


def in_one_piece(tensors):
    """A flat tensor over all of them, if they lie one after the other; else None."""
    first = tensors[0]
    end = first.data_ptr()
    for tensor in tensors:
        if not tensor.is_contiguous() or tensor.data_ptr() != end:
            return None
        end += tensor.numel() * tensor.element_size()
    count = sum(tensor.numel() for tensor in tensors)
    return first.detach().as_strided((count,), (1,)) if _fits(first, count) else None


def _fits(tensor, count):
    storage = tensor.untyped_storage() if hasattr(tensor, "untyped_storage") else tensor.storage()
    size = storage.nbytes()
    return (tensor.storage_offset() + count) * tensor.element_size() <= size


def joined(tensors):
    """One flat tensor with the contents of all, without a copy where they lie so."""
    return in_one_piece(tensors) if in_one_piece(tensors) is not None else torch.cat(
        [tensor.detach().reshape(-1) for tensor in tensors])


def room_for(tensors):
    """(flat tensor to write to, what then brings it to the tensors or None)."""
    piece = in_one_piece(tensors)
    if piece is not None:
        return piece, None
    flat = tensors[0].new_empty(sum(tensor.numel() for tensor in tensors))

    def bring():
        at = 0
        with torch.no_grad():
            for tensor in tensors:
                tensor.detach().copy_(flat[at:at + tensor.numel()].view(tensor.shape))
                at += tensor.numel()
    return flat, bring
