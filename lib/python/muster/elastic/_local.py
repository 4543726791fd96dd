# SPDX-License-Identifier: Apache-2.0
"""The part of a State that differs between ranks: the random generators of Python and, if the
program has imported it, of NumPy."""
from __future__ import annotations

import array
import importlib
import random
import sys
from typing import Any, Dict

Local = Dict[str, Any]


def take_generators() -> Local:
    version, numbers, gauss = random.getstate()
    local: Local = {"python": (version, array.array("I", numbers).tobytes(), gauss)}
    if "numpy" in sys.modules:
        local["numpy"] = sys.modules["numpy"].random.get_state()
    return local


def put_generators(local: Local) -> None:
    version, numbers, gauss = local["python"]
    random.setstate((version, tuple(array.array("I", numbers)), gauss))
    if "numpy" in local:  # a replacement may not have imported it yet
        importlib.import_module("numpy").random.set_state(local["numpy"])
