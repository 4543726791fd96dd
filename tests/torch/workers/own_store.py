# SPDX-License-Identifier: Apache-2.0
"""With TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1 rank 0 serves the store, on a port that was reserved
for it; after the first round all ranks meet again."""
import os

import torch
import torch.distributed as dist

assert os.environ["TORCHELASTIC_USE_AGENT_STORE"] == "False"
dist.init_process_group("gloo")
rank, world_size = dist.get_rank(), dist.get_world_size()
numbers = torch.tensor([rank + 1.0])
dist.all_reduce(numbers)
assert numbers.item() == world_size * (world_size + 1) / 2
dist.barrier()
attempt = os.environ["TORCHELASTIC_RESTART_COUNT"]
os.write(1, f"attempt {attempt} rank {rank} port {os.environ['MASTER_PORT']}\n".encode())
dist.barrier()
dist.destroy_process_group()
if attempt == "0" and rank == 1:
    raise SystemExit(3)
