# SPDX-License-Identifier: Apache-2.0
"""Argument checks for each operation. They use gloo's messages, because programs match on them."""
from __future__ import annotations

from typing import List, Sequence

import torch

from .. import errors

Tensors = Sequence[torch.Tensor]


def refuse(operation: str, why: str) -> errors.InvalidArgument:
    return errors.InvalidArgument(f"{operation}: {why}")


def supported(operation: str, tensors: Tensors) -> None:
    """Rejects tensors that are not on the CPU or not dense."""
    for tensor in tensors:
        if tensor.device.type != "cpu":
            raise errors.Unsupported(f'{operation}: unsupported device type: the muster backend '
                                     f"supports only CPU tensors; this one is on {tensor.device}")
        if tensor.layout is not torch.strided:
            raise errors.Unsupported(f"{operation}: unsupported layout: only dense tensors are "
                                     f"supported; this one is {tensor.layout}")


def single(operation: str, tensors: Tensors, what: str = "tensor list") -> torch.Tensor:
    """Returns the tensor of a single-element list."""
    if len(tensors) == 0 and what == "tensor list":
        raise refuse(operation, "requires non-empty tensor list: pass one tensor")
    if len(tensors) != 1:
        raise refuse(operation, f"requires a single-element {what}, not {len(tensors)} tensors")
    supported(operation, tensors)
    return tensors[0]


def root(operation: str, rank: int, size: int, tensor: int = 0, tensors: int = 1) -> int:
    """Checks a root rank and a root tensor. tensor: the options' rootTensor, an index into a list
    of `tensors` tensors."""
    if not 0 <= rank < size:
        raise refuse(operation, f"invalid root rank: {rank}")
    if not 0 <= tensor < tensors:
        raise refuse(operation, f"invalid root tensor: {tensor}")
    return rank


def peer(operation: str, rank: int, own: int, size: int) -> int:
    if not 0 <= rank < size or rank == own:
        raise refuse(operation, f"invalid peer {rank}: it must be a rank from 0 to {size - 1}, but "
                                f"not this rank ({own})")
    return rank


def alike(operation: str, tensors: Tensors, like: torch.Tensor, *, sizes: bool = True) -> None:
    """Rejects tensors other than dense CPU tensors, and lists with a tensor whose dtype or size
    differs from `like`."""
    same_layout(operation, tensors, like)
    supported(operation, tensors)
    match(operation, tensors, like, sizes=sizes)


def same_layout(operation: str, tensors: Tensors, like: torch.Tensor) -> None:
    for index, tensor in enumerate(tensors):
        if tensor.layout is not like.layout:
            raise refuse(operation, f"invalid tensor layout at index {index} (expected "
                                    f"{like.layout}, got {tensor.layout})")


def match(operation: str, tensors: Tensors, like: torch.Tensor, *, sizes: bool = True) -> None:
    for index, tensor in enumerate(tensors):
        if tensor.dtype is not like.dtype:
            raise refuse(operation, f"invalid tensor type at index {index} (expected {like.dtype}, "
                                    f"got {tensor.dtype})")
        if sizes and tensor.numel() != like.numel():
            raise refuse(operation, f"invalid tensor size at index {index} (expected "
                                    f"{tuple(like.shape)}, got {tuple(tensor.shape)})")


def one_of_each(operation: str, lists: Sequence[Tensors], size: int, side: str) -> Tensors:
    """On the root: returns the list with one tensor per rank. side: "input" or "output"."""
    if len(lists) != 1:
        raise refuse(operation, f"requires a single-element {side} list containing a list with "
                                f"{size} tensors")
    if len(lists[0]) != size:
        raise refuse(operation, f"Incorrect {side} list size {len(lists[0])}. {side.capitalize()} "
                                f"list size should be {size}, same as size of the process group.")
    return lists[0]


def none(operation: str, lists: Sequence[Tensors], side: str) -> None:
    """On the other ranks: rejects a list that is not empty."""
    if len(lists) != 0:
        raise refuse(operation, f"requires empty {side} on non-root")


def for_each(operation: str, lists: Sequence[Tensors], inputs: Tensors, size: int) -> None:
    """Checks that each input has a list of outputs, with one output for every input of every
    rank."""
    if len(inputs) == 0:
        raise refuse(operation, "requires non-empty input tensor list")
    if len(lists) != len(inputs):
        raise refuse(operation, "requires input/output tensor lists to have the same length")
    expected = size * len(inputs)
    for index, outputs in enumerate(lists):
        if len(outputs) != expected:
            raise refuse(operation, f"invalid output tensor list at index {index} (expected "
                                    f"length {expected}, got {len(outputs)})")
    for tensors in (inputs, *lists):
        alike(operation, tensors, inputs[0])


def coalesced(operation: str, lists: Sequence[Tensors], inputs: Tensors, size: int) -> None:
    """Checks that each rank has a list of outputs, with one output for each of that rank's
    inputs."""
    if len(inputs) == 0:
        raise refuse(operation, "requires non-empty input tensor list")
    if len(lists) != size:
        raise refuse(operation, f"output lists should be equal to world size, {size}, not "
                                f"{len(lists)}")
    for outputs in lists:
        if len(outputs) != len(inputs):
            raise refuse(operation, f"invalid output size: (expected length {len(inputs)}, got "
                                    f"{len(outputs)})")
        for index, (output, source) in enumerate(zip(outputs, inputs)):
            if output.numel() != source.numel():
                raise refuse(operation, f"invalid size of output tensor at index {index} "
                                        f"(expected {tuple(source.shape)}, got "
                                        f"{tuple(output.shape)})")
            if output.dtype is not source.dtype:
                raise refuse(operation, f"invalid tensor type at index {index} (expected "
                                        f"{source.dtype}, got {output.dtype})")


def same_dtype(operation: str, tensors: Tensors) -> None:
    if len(tensors) == 0:
        raise refuse(operation, "requires non-empty tensor list")
    same_layout(operation, tensors, tensors[0])
    supported(operation, tensors)
    if any(tensor.dtype is not tensors[0].dtype for tensor in tensors):
        raise refuse(operation, "tensors must all have the same type")


def base(operation: str, whole: torch.Tensor, part: torch.Tensor, size: int) -> None:
    """Checks an all_gather into one tensor, or a reduce_scatter from one tensor."""
    supported(operation, (whole, part))
    if whole.dtype is not part.dtype:
        raise refuse(operation, f"invalid tensor type at index 0 (expected {part.dtype}, got "
                                f"{whole.dtype})")
    if whole.numel() != size * part.numel():
        raise refuse(operation, f"invalid tensor size (expected {size} x {part.numel()} elements, "
                                f"got {whole.numel()})")


def contiguous(operation: str, tensors: Tensors) -> None:
    if not all(tensor.is_contiguous() for tensor in tensors):
        raise refuse(operation, "Tensors must be contiguous")


def splits(operation: str, split: Sequence[int], tensor: torch.Tensor, size: int) -> List[int]:
    """The number of rows for each rank."""
    rows = tensor.shape[0] if tensor.dim() > 0 else 0
    if not split:
        if rows % size != 0:
            raise refuse(operation, "Tensor's dim 0 does not divide equally across group size")
        return [rows // size] * size
    if len(split) != size:
        raise refuse(operation, "Number of tensor splits not equal to group size")
    if sum(split) != rows or min(split) < 0:
        raise refuse(operation, "Split sizes doesn't match total dim 0 size")
    return list(split)
