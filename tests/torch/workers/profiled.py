# SPDX-License-Identifier: Apache-2.0
"""Trains with gloo until the file "finish" exists. Tells its steps through files in SCRATCH."""
import os

import torch
import torch.distributed as dist

torch.set_num_threads(1)
dist.init_process_group("gloo")
rank = dist.get_rank()
folder = os.environ["SCRATCH"]
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(16, 16))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
step = 0
while True:
    optimizer.zero_grad()
    model(torch.randn(4, 16)).sum().backward()
    if os.environ.get("WITHOUT_STEPS") != "1":
        optimizer.step()
    step += 1
    with open(f"{folder}/new{rank}", "w", encoding="utf-8") as file:
        file.write(str(step))
    os.rename(f"{folder}/new{rank}", f"{folder}/step{rank}")
    ends = torch.tensor([os.path.exists(f"{folder}/finish")])
    dist.broadcast(ends, 0)
    if ends:
        break
del model, optimizer
dist.destroy_process_group()
os._exit(0)  # after a recording, PyTorch's profiler may abort while the interpreter exits
