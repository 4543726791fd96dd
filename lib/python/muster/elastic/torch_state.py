# SPDX-License-Identifier: Apache-2.0
"""TorchState: a State with models, optimizers and random generators of PyTorch."""
from __future__ import annotations

import copy
from typing import Any, Dict, List, Optional

import torch

from ._copies import ARRAYS
from ._link import Link
from ._local import Local
from ._news import AnyNews, Members
from ._tensors import TENSORS
from .state import State
from .torch_link import TorchLink
from .torch_local import Buffers, put_generators, take_generators


class TorchState(State):
    """TorchState(model=model, optimizer=optimizer, scheduler=scheduler, step=0): of values that
    have state_dict() and load_state_dict(), it stores the state_dict; all other values are as in
    State.

    Pass the bare model. Construct DistributedDataParallel inside the training function: it must be
    new in each epoch, and it must not exist before sync(), because its constructor broadcasts rank
    0's weights. Gradients are not part of the state: restore() sets them to None.

    A commit copies all tensors, on their devices. The last two copies are kept, so they need twice
    as much memory as the model and the optimizer's state.

    Each rank also stores what differs between ranks: the random generators of Python, of NumPy if
    it is imported, of PyTorch, and of CUDA if it is initialized; and the modules' buffers, such as
    the running statistics of BatchNorm. restore() sets them. Each commit, and each forward pass in
    training mode with gradients, writes them to memory that muster keeps for the replacement of
    this rank (--vault-memory).

    ValueError: the model is a DistributedDataParallel. MemoryError, from commit() and sync(): the
    generators and buffers need more memory than muster provides.
    """

    def __init__(self, model: Any = None, optimizer: Any = None, **values: Any) -> None:
        given = {"model": model, "optimizer": optimizer}
        super().__init__(**{name: each for name, each in given.items() if each is not None},
                         **values)
        for name, each in self._values.items():
            if isinstance(each, torch.nn.parallel.DistributedDataParallel):
                raise ValueError(f"'{name}' is a DistributedDataParallel; pass the bare model and "
                                 "wrap it inside the training function")
        self._modules = [each for each in self._values.values()
                         if isinstance(each, torch.nn.Module)]
        self._buffers = Buffers(self._modules)
        self._hooks: List[Any] = []

    _kinds = (ARRAYS, TENSORS)

    def _make_link(self, members: Members, backend: Optional[str]) -> Link:
        return TorchLink(members, backend)

    def _attach(self, link: Optional[Link], news: AnyNews, epoch: int) -> None:
        global _running  # pylint: disable=global-statement
        super()._attach(link, news, epoch)
        for hook in self._hooks:
            hook.remove()
        _running = None if link is None else self
        self._hooks = [] if link is None or news.record is None else [
            module.register_forward_hook(_after_forward) for module in self._modules]

    def _current(self) -> Dict[str, Any]:
        return {name: each.state_dict() if _is_stateful(each) else each
                for name, each in self._values.items()}

    def _put(self, values: Dict[str, Any]) -> None:
        """Copies first, because Optimizer.load_state_dict() uses the tensors that it is given."""
        for name, each in values.items():
            current = self._values[name]
            if _is_stateful(current):
                current.load_state_dict(copy.deepcopy(each))
            else:
                self._values[name] = copy.deepcopy(each)
            if isinstance(current, torch.nn.Module):
                for parameter in current.parameters():
                    parameter.grad = None

    def _take_local(self) -> Local:
        return {**super()._take_local(), **take_generators(), "buffers": self._buffers.take()}

    def _put_local(self, local: Local) -> None:
        super()._put_local(local)
        put_generators(local)
        if local["buffers"] is not None:  # otherwise those of another rank are in the values
            self._buffers.put(local["buffers"])

    def _local_of_new_process(self) -> Local:
        return {**super()._local_of_new_process(), "buffers": None}


_running: Optional[TorchState] = None  # inside the function


def _after_forward(module: torch.nn.Module, *_: Any) -> None:
    """Runs before backward(), which sends this rank's gradients. A module-level function, so that
    copies of the module do not contain the state."""
    if (_running is not None and module.training and torch.is_grad_enabled()
            and any(each is module for each in _running._modules)):
        _running._intend()


def _is_stateful(value: Any) -> bool:
    return hasattr(value, "state_dict") and hasattr(value, "load_state_dict")
