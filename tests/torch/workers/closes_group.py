# SPDX-License-Identifier: Apache-2.0
"""Rank 2 fails between two all-reduces and closes its group during cleanup, like many trainers. It
exits only after a peer has lost the connection; the peer reports that through the fifo (argument).
"""
import os
import sys

import torch
import torch.distributed as dist


def train():
    value = torch.ones(1)
    for step in range(5):
        if step == 3 and dist.get_rank() == 2:
            raise ValueError("bad batch 17")
        dist.all_reduce(value)


FIFO = os.open(sys.argv[1], os.O_RDWR)
dist.init_process_group("gloo")
try:
    train()
except RuntimeError:
    os.write(FIFO, b"x")
    raise
finally:
    rank = dist.get_rank()
    dist.destroy_process_group()
    if rank == 2:
        os.read(FIFO, 1)
