# SPDX-License-Identifier: Apache-2.0
"""TorchState: a State with models, optimizers and random generators of PyTorch."""
from __future__ import annotations

import copy
import random
import sys
from typing import Any, Dict, Optional

import torch

from ._link import Link
from ._news import Members
from .state import State
from .torch_link import TorchLink


class TorchState(State):
    """TorchState(model=model, optimizer=optimizer, scheduler=scheduler, step=0): of values that
    have state_dict() and load_state_dict(), it stores the state_dict; all other values are as in
    State.

    Pass the bare model. Construct DistributedDataParallel inside the training function: it must be
    new in each epoch, and it must not exist before sync(), because its constructor broadcasts rank
    0's weights. Gradients are not part of the state: restore() sets them to None.

    A commit copies all tensors, on their devices, so it needs as much memory as the model and the
    optimizer's state.

    Each rank also stores its own random generators: those of Python, of NumPy if it is imported,
    of PyTorch, and of CUDA if it is initialized. restore() sets them. They are not sent to other
    ranks: a replaced process starts with the generators of a new process. A rank that receives the
    values of a newer commit keeps the generators of its own last commit.

    ValueError: the model is a DistributedDataParallel.
    """

    def __init__(self, model: Any = None, optimizer: Any = None, **values: Any) -> None:
        given = {"model": model, "optimizer": optimizer}
        super().__init__(**{name: each for name, each in given.items() if each is not None},
                         **values)
        for name, each in self._values.items():
            if isinstance(each, torch.nn.parallel.DistributedDataParallel):
                raise ValueError(f"'{name}' is a DistributedDataParallel; pass the bare model and "
                                 "wrap it inside the training function")

    def _make_link(self, members: Members, backend: Optional[str]) -> Link:
        return TorchLink(members, backend)

    def _take(self) -> Dict[str, Any]:
        return {name: copy.deepcopy(each.state_dict() if _is_stateful(each) else each)
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

    def _take_local(self) -> Any:
        generators = {"python": random.getstate(), "torch": torch.get_rng_state()}
        if "numpy" in sys.modules:
            generators["numpy"] = sys.modules["numpy"].random.get_state()
        if torch.cuda.is_available() and torch.cuda.is_initialized():
            generators["cuda"] = torch.cuda.get_rng_state_all()
        return generators

    def _put_local(self, local: Any) -> None:
        random.setstate(local["python"])
        torch.set_rng_state(local["torch"])
        if "numpy" in local:
            sys.modules["numpy"].random.set_state(local["numpy"])
        if "cuda" in local:
            torch.cuda.set_rng_state_all(local["cuda"])


def _is_stateful(value: Any) -> bool:
    return hasattr(value, "state_dict") and hasattr(value, "load_state_dict")
