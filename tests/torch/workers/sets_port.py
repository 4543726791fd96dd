# SPDX-License-Identifier: Apache-2.0
"""Like many single-machine tutorials: the script itself sets the address at which all ranks meet.
The port is the argument."""
import os
import sys

import torch.distributed as dist

os.environ["MASTER_ADDR"] = "localhost"
os.environ["MASTER_PORT"] = sys.argv[1]
dist.init_process_group("gloo")
dist.barrier()
os.write(1, f"rank {dist.get_rank()} met the others at {os.environ['MASTER_PORT']}\n".encode())
dist.destroy_process_group()
