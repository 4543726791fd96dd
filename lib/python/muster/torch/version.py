# SPDX-License-Identifier: Apache-2.0
"""PyTorch's version, for code that depends on it."""
from __future__ import annotations

import torch

VERSION = tuple(int(part) for part in torch.__version__.split(".")[:2])
