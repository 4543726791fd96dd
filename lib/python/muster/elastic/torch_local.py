# SPDX-License-Identifier: Apache-2.0
"""The part of a TorchState that differs between ranks: PyTorch's random generators, and buffers
such as the running statistics of BatchNorm. As plain bytes, because pickling tensors takes
longer."""
from __future__ import annotations

import ctypes
from typing import Any, Dict, Iterable, Iterator, List, Tuple

import torch

from . import _tensors
from ._local import Local


class Buffers:
    """The buffers in the state_dict() of these modules."""

    def __init__(self, modules: Iterable[torch.nn.Module]) -> None:
        self._places: List[Tuple[Dict[str, Any], str]] = []
        for owner in (each for module in modules for each in module.modules()):
            passing = getattr(owner, "_non_persistent_buffers_set", ())
            self._places += [(owner._buffers, name) for name, value in owner._buffers.items()
                             if value is not None and name not in passing]

    def take(self) -> bytes:
        return b"".join(_bytes_of(torch.cat([_flat(each) for each in group]))
                        for group in self._groups())

    def put(self, data: bytes) -> None:
        at = 0
        for each in (tensor for group in self._groups() for tensor in group):
            size = each.numel() * each.element_size()
            if size:
                now = torch.frombuffer(bytearray(data[at:at + size]), dtype=each.dtype)
                with torch.no_grad():
                    each.copy_(now.reshape(each.shape))
            at += size

    def _groups(self) -> Iterator[List[torch.Tensor]]:
        """The buffers of each device: a copy from a GPU waits for it, so there is one copy."""
        groups: Dict[torch.device, List[torch.Tensor]] = {}
        for owner, name in self._places:
            value = owner.get(name)
            if value is not None and _tensors.is_dense(value):
                groups.setdefault(value.device, []).append(value)
        return iter(groups.values())


def take_generators() -> Local:
    local: Local = {"torch": _bytes_of(torch.get_rng_state())}
    if torch.cuda.is_available() and torch.cuda.is_initialized():
        local["cuda"] = [_bytes_of(each) for each in torch.cuda.get_rng_state_all()]
    return local


def put_generators(local: Local) -> None:
    torch.set_rng_state(_tensor_of(local["torch"]))
    if "cuda" in local:
        torch.cuda.set_rng_state_all([_tensor_of(each) for each in local["cuda"]])


def _flat(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor's bytes; a view if it is contiguous."""
    return tensor.detach().reshape(-1).view(torch.uint8)


def _bytes_of(tensor: torch.Tensor) -> bytes:
    """Without NumPy, which PyTorch does not need."""
    on_host = tensor.cpu()
    return ctypes.string_at(on_host.data_ptr(), on_host.numel())


def _tensor_of(data: bytes) -> torch.Tensor:
    return torch.frombuffer(bytearray(data), dtype=torch.uint8)
