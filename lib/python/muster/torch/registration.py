# SPDX-License-Identifier: Apache-2.0
"""Registers the backend with torch.distributed."""
from __future__ import annotations

from typing import Any

import torch.distributed as dist

from .. import torch_replaces
from .bootstrap import create


def register() -> None:
    """Registers the name "muster", and replaces gloo if the environment enables that. A second
    call does nothing. Also called through PyTorch's entry point group
    torch.distributed.backends."""
    if not hasattr(dist.Backend, "MUSTER"):
        try:
            dist.Backend.register_backend("muster", create, devices=["cpu"])
        except TypeError:  # PyTorch 1.13
            dist.Backend.register_backend("muster", create)
    # The library has its own flight recorder.
    recorders: Any = getattr(dist.distributed_c10d, "_FR_SELF_RECORDING_BACKENDS", set())
    recorders.add("muster")
    torch_replaces.replace(dist.distributed_c10d)
