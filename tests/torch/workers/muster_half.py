# SPDX-License-Identifier: Apache-2.0
"""Prints which implementation of the backend "muster" the group uses."""
import torch
import torch.distributed as dist

from muster.torch import compiled  # registers the backend as well

dist.init_process_group("muster")
tensor = torch.ones(2)
dist.all_reduce(tensor)
assert tensor.tolist() == [float(dist.get_world_size())] * 2
half = "compiled" if compiled.module(dist.get_rank()) else "python"
print(f"rank {dist.get_rank()}: {half}", flush=True)
dist.destroy_process_group()
