# SPDX-License-Identifier: Apache-2.0
"""Training functions that survive the loss of other ranks.

    from muster import elastic

    @elastic.run
    def train(state):
        ddp = DistributedDataParallel(state.model)
        for state.step in range(state.step, STEPS):
            train_step(ddp, state.optimizer, batch_of(state.step))
            state.commit()

    train(elastic.TorchState(model=model, optimizer=optimizer, step=0))

    muster --restart=rank --max-restarts=3 --nproc-per-node=4 train.py

If a rank fails, muster replaces only that process. The surviving processes leave the function,
return to their last commit, connect to the replacement, send it the state and enter the function
again. Without muster, the function runs once, as in an ordinary program.

State is for NumPy programs and provides a muster.Communicator (state.comm). TorchState is for
PyTorch and creates the default process group of torch.distributed. Sampler selects the samples of
each step. None of these classes is thread-safe.
"""
from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ._news import Reset
from ._run import run
from .sampler import Sampler
from .state import State

if TYPE_CHECKING:
    from .torch_state import TorchState

__all__ = ["Reset", "Sampler", "State", "TorchState", "run"]


def __getattr__(name: str) -> Any:
    """Imports PyTorch only for programs that use TorchState."""
    if name == "TorchState":
        from .torch_state import TorchState
        return TorchState
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
