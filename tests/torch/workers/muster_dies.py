# SPDX-License-Identifier: Apache-2.0
"""Rank 1 is killed; the others say what their operations end with. Words: "collective" or "ddp",
where PyTorch waits in C++."""
import os
import signal
import sys
from datetime import timedelta

import torch
import torch.distributed as dist

import muster
import muster.torch  # registers the back end


def say(text):
    os.write(1, f"{text}\n".encode())


def die_if_chosen():
    dist.barrier()
    if dist.get_rank() == 1:
        os.kill(os.getpid(), signal.SIGKILL)


def collective():
    work = dist.all_reduce(torch.ones(5), async_op=True)
    work.wait()
    die_if_chosen()
    try:
        dist.all_reduce(torch.ones(5), async_op=True).get_future().wait()
    except RuntimeError as error:
        assert "rank 1" in str(error), error
    else:
        raise AssertionError("a future without an error")
    try:
        dist.all_reduce(torch.ones(5))
    except muster.PeerFailed as error:
        say(f"PeerFailed rank {error.rank}: {error}")


def ddp():
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(300, 300))
    model(torch.ones(1, 300)).sum().backward()
    die_if_chosen()
    try:
        for _ in range(2):
            model(torch.ones(1, 300)).sum().backward()
    except RuntimeError as error:
        say(f"{type(error).__name__}: {error}".replace("\n", " "))


def main():
    dist.init_process_group("muster", timeout=timedelta(seconds=60))
    {"collective": collective, "ddp": ddp}[sys.argv[1]]()
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
