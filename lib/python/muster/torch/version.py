# SPDX-License-Identifier: Apache-2.0
"""The version of PyTorch, where the package has to know it."""
from __future__ import annotations

import torch

VERSION = tuple(int(part) for part in torch.__version__.split(".")[:2])
