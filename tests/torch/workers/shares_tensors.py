# SPDX-License-Identifier: Apache-2.0
"""Each rank shares a tensor with the other one through a file in /dev/shm. For this, PyTorch starts
a daemon in each rank, torch_shm_manager. The rank prints its pid and the file's name, and exits
once it has read a byte from the fifo (first argument). In the first attempt, rank 1 exits with the
code in the second argument."""
import os
import pickle
import sys
from multiprocessing.reduction import ForkingPickler

import torch
import torch.distributed as dist
import torch.multiprocessing

torch.multiprocessing.set_sharing_strategy("file_system")
fifo = os.open(sys.argv[1], os.O_RDWR)
dist.init_process_group("gloo")
rank = dist.get_rank()
mine = torch.zeros(1000)
everyones = [None, None]
dist.all_gather_object(everyones, bytes(ForkingPickler.dumps(mine)))
theirs = pickle.loads(everyones[1 - rank])
theirs += rank + 1
dist.barrier()
assert mine.sum() == 1000 * (2 - rank), mine
storage = mine.untyped_storage() if hasattr(mine, "untyped_storage") else mine.storage()
name = storage._share_filename_cpu_()[1].decode()
os.write(1, f"shares {os.getpid()} {name}\n".encode())
os.read(fifo, 1)
if rank == 1 and os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
    os._exit(int(sys.argv[2]))
