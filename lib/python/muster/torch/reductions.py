# SPDX-License-Identifier: Apache-2.0
"""Maps PyTorch's reduce ops to the library's."""
from __future__ import annotations

from typing import Any, Callable, Dict, Optional, Tuple

import torch
import torch.distributed as dist

from .. import errors
from .overloads import Options

_OPS = {"SUM": "sum", "PRODUCT": "prod", "MAX": "max", "MIN": "min", "AVG": "avg",
        "PREMUL_SUM": "premul_sum"}
# The library lacks these ops, so the data are gathered, then combined.
BITWISE: Dict[str, Callable[[Any, Any], Any]] = {
    "BAND": torch.bitwise_and, "BOR": torch.bitwise_or, "BXOR": torch.bitwise_xor}
# Combines several tensors of one rank.
COMBINE: Dict[str, Callable[[Any, Any], Any]] = {
    "SUM": torch.add, "PRODUCT": torch.mul, "MIN": torch.minimum, "MAX": torch.maximum, **BITWISE}
_BOOL = {"SUM": "max", "PRODUCT": "min", "MAX": "max", "MIN": "min", "BAND": "min", "BOR": "max"}


def name_of(opts: Options) -> str:
    op = getattr(opts, "reduceOp", dist.ReduceOp.SUM)
    op = getattr(op, "op", op)
    return getattr(op, "name", None) or str(op).rpartition(".")[2]


def op_of(opts: Options, dtype: torch.dtype) -> Tuple[str, Optional[str], float]:
    """PyTorch's name for the op, the library's name, and the scale. If the library's name is None,
    the caller must gather and combine."""
    name = name_of(opts)
    ours = (_BOOL if dtype is torch.bool else _OPS).get(name)
    if ours is None and (name not in BITWISE or dtype.is_floating_point):
        which = "non-integral dtype " if name in BITWISE else ""
        raise errors.Unsupported(f"Cannot use ReduceOp.{name} with {which}{dtype}")
    if ours == "premul_sum":
        factor = getattr(opts.reduceOp, "factor", None)
        if factor is None:
            raise errors.Unsupported("PREMUL_SUM: this PyTorch does not expose the factor")
        return name, ours, float(factor)
    return name, ours, 1.0


def as_real(tensor: torch.Tensor, opts: Options) -> torch.Tensor:
    """Views complex numbers as pairs of real numbers."""
    if not tensor.is_complex():
        return tensor
    if name_of(opts) not in ("SUM", "AVG"):
        raise errors.Unsupported(f"ReduceOp.{name_of(opts)} does not support complex tensors")
    return torch.view_as_real(tensor)
