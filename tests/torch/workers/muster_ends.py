# SPDX-License-Identifier: Apache-2.0
"""Processes that end while a future's callback runs, while an operation that nobody joins is under
way, and while a receive from any source waits; without destroy_process_group()."""
import os
import threading

import torch
import torch.distributed as dist

import muster.torch  # registers the back end


def main():
    dist.init_process_group("muster")
    never = threading.Event()
    begun = threading.Event()

    def callback(future):
        begun.set()
        never.wait(0.5)  # so that the end of the process finds the thread in here
        return future.value()
    chained = dist.all_reduce(torch.ones(3), async_op=True).get_future().then(callback)
    dist.barrier()
    waiting = dist.irecv(torch.ones(1)) if dist.get_rank() == 0 else None
    if dist.get_rank() == 0:
        dist.all_reduce(torch.ones(3), async_op=True).get_future().then(lambda future: 1)
    begun.wait(60)
    os.write(1, f"rank {dist.get_rank()} ends\n".encode())
    del chained, waiting


if __name__ == "__main__":
    main()
