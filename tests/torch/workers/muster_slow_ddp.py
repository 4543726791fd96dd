# SPDX-License-Identifier: Apache-2.0
"""Unmodified DDP over the backend "muster", until it is told to stop; rank $SLOW_RANK has more work
before each step."""
import os
import threading

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import muster.torch  # registers the backend

STEP = 0.02  # seconds
MORE = 0.03

torch.set_num_threads(1)
dist.init_process_group("muster")
model = DistributedDataParallel(nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 4)),
                                bucket_cap_mb=0.004)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
is_slow = dist.get_rank() == int(os.environ["SLOW_RANK"])
inputs = torch.randn(8, 64)
while True:
    threading.Event().wait(STEP + (MORE if is_slow else 0))  # its work
    model(inputs).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
