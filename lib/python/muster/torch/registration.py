# SPDX-License-Identifier: Apache-2.0
"""How torch.distributed gets to know the back end."""
from __future__ import annotations

from typing import Any

import torch.distributed as dist

from .. import torch_replaces
from .bootstrap import create


def register() -> None:
    """Makes the name "muster" known, and takes over gloo's where the environment says so. A second
    call does nothing. For PyTorch's entry points torch.distributed.backends as well."""
    if not hasattr(dist.Backend, "MUSTER"):
        try:
            dist.Backend.register_backend("muster", create, devices=["cpu"])
        except TypeError:  # PyTorch 1.13
            dist.Backend.register_backend("muster", create)
    # The library keeps a flight recorder itself.
    recorders: Any = getattr(dist.distributed_c10d, "_FR_SELF_RECORDING_BACKENDS", set())
    recorders.add("muster")
    torch_replaces.replace(dist.distributed_c10d)
