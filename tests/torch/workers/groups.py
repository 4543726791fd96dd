# SPDX-License-Identifier: Apache-2.0
"""The operations of a job that use the store: groups, barriers and objects, through env:// only."""
import os

import torch
import torch.distributed as dist

assert os.environ["TORCHELASTIC_USE_AGENT_STORE"] == "True"
assert dist.is_torchelastic_launched()
dist.init_process_group("gloo")
rank, world_size = dist.get_rank(), dist.get_world_size()
numbers = torch.tensor([rank + 1.0])
dist.all_reduce(numbers)
assert numbers.item() == world_size * (world_size + 1) / 2
second = dist.new_group()
dist.barrier(group=second)
alone = dist.new_group([0])
gathered = [None] * world_size
dist.all_gather_object(gathered, {"rank": rank}, group=second)
assert [one["rank"] for one in gathered] == list(range(world_size))
dist.monitored_barrier()
dist.destroy_process_group()
os.write(1, f"rank {rank} of {world_size} is done\n".encode())
