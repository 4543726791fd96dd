# SPDX-License-Identifier: Apache-2.0
"""Copies and broadcasts values with tensors. A broadcast first sends the value's structure, in
pickled form, then the tensors' bytes. The receivers need not have any of the tensors: Adam, for
example, creates its own in the first step."""
from __future__ import annotations

import io
import pickle
from typing import Any, Dict, Iterator, List, Tuple

import torch
import torch.distributed as dist

from ._copies import Kind

CHUNK_BYTES = 64 << 20  # tensors are sent together up to this size
_ALIGNMENT = 16  # bytes; covers every element type

Slot = Tuple[torch.dtype, Tuple[int, ...], str]  # element type, shape, type of device


def is_dense(value: Any) -> bool:
    """Whether the value is a plain tensor whose elements are all in its memory."""
    return (type(value) is torch.Tensor and value.layout is torch.strided
            and not value.is_quantized)


def _copy(targets: List[torch.Tensor], sources: List[torch.Tensor]) -> None:
    """All at once if possible, because Python copies tensors one by one."""
    with torch.no_grad():
        if sources and hasattr(torch, "_foreach_copy_"):
            torch._foreach_copy_(targets, sources)
        else:  # PyTorch before 2.1
            for target, source in zip(targets, sources):
                target.copy_(source)


TENSORS = Kind(lambda value: is_dense(value) and not value.requires_grad,
               lambda tensor: (tensor.dtype, tensor.shape, tensor.device, tensor.stride()),
               torch.empty_like, _copy)


class _Packer(pickle.Pickler):
    """Pickles a value, but collects its dense tensors."""

    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file, 4)
        self.tensors: List[torch.Tensor] = []
        self._places: Dict[int, Tuple[int, Slot]] = {}

    def persistent_id(self, obj: Any) -> Any:
        if not is_dense(obj):
            return None
        if id(obj) not in self._places:
            slot = (obj.dtype, tuple(obj.shape), obj.device.type)
            self._places[id(obj)] = (len(self.tensors), slot)
            self.tensors.append(obj.detach().contiguous())
        return self._places[id(obj)]


class _Unpacker(pickle.Unpickler):
    """Creates a tensor in place of each collected one; its contents arrive later."""

    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file)
        self.tensors: Dict[int, torch.Tensor] = {}

    def persistent_load(self, pid: Any) -> torch.Tensor:
        index, (dtype, shape, device) = pid
        if index not in self.tensors:
            self.tensors[index] = torch.empty(shape, dtype=dtype, device=device)
        return self.tensors[index]


def broadcast(value: Any, root: int, is_root: bool, device: torch.device) -> Any:
    """Returns the root's value on every rank. device: where the group's backend needs tensors.
    Raises the errors of torch.distributed.broadcast."""
    file = io.BytesIO()
    packer = _Packer(file)
    if is_root:
        packer.dump(value)
    data = _broadcast_bytes(file.getvalue(), root, is_root, device)
    tensors = packer.tensors
    if not is_root:
        unpacker = _Unpacker(io.BytesIO(data))
        value = unpacker.load()
        tensors = [unpacker.tensors[index] for index in sorted(unpacker.tensors)]
    with torch.no_grad():
        for chunk in _chunks(tensors):
            _broadcast_chunk(chunk, root, is_root, device)
    return value


def _broadcast_bytes(data: bytes, root: int, is_root: bool, device: torch.device) -> bytes:
    size = torch.tensor([len(data)], device=device)
    dist.broadcast(size, root)
    buffer = torch.empty(int(size), dtype=torch.uint8)
    if is_root:
        buffer = torch.frombuffer(bytearray(data), dtype=torch.uint8)
    buffer = buffer.to(device)
    dist.broadcast(buffer, root)
    return bytes(buffer.cpu().numpy().tobytes())


def _chunks(tensors: List[torch.Tensor]) -> Iterator[List[torch.Tensor]]:
    chunk: List[torch.Tensor] = []
    total = 0
    for tensor in tensors:
        if tensor.numel() == 0:
            continue
        if chunk and total + _bytes(tensor) > CHUNK_BYTES:
            yield chunk
            chunk, total = [], 0
        chunk.append(tensor)
        total += _bytes(tensor)
    if chunk:
        yield chunk


def _bytes(tensor: torch.Tensor) -> int:
    """The tensor's size in a chunk, rounded up to the alignment."""
    size = tensor.numel() * tensor.element_size()
    return int(-(-size // _ALIGNMENT) * _ALIGNMENT)


def _broadcast_chunk(chunk: List[torch.Tensor], root: int, is_root: bool,
                     device: torch.device) -> None:
    flat = torch.zeros(sum(map(_bytes, chunk)), dtype=torch.uint8, device=device)
    at, views = 0, []
    for tensor in chunk:
        part = flat[at:at + tensor.numel() * tensor.element_size()]
        views.append(part.view(tensor.dtype).view(tensor.shape))
        at += _bytes(tensor)
    for tensor, view in zip(chunk, views) if is_root else ():
        view.copy_(tensor)
    dist.broadcast(flat, root)
    for tensor, view in zip(chunk, views) if not is_root else ():
        tensor.copy_(view)
