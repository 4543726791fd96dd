# SPDX-License-Identifier: Apache-2.0
"""Rank 1 is killed, and the others print how their operations end: "collective", "tagged", or
"ddp", where PyTorch waits in C++. Rank 1 calls a different operation: "mismatch". Rank 1 does not
arrive: "late"."""
import os
import signal
import sys
from datetime import timedelta

import torch
import torch.distributed as dist

import muster
import muster.torch  # registers the backend


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


def named(call):
    try:
        call()
    except muster.Error as error:
        say(f"{type(error).__name__} rank {error.rank}: {error}")
    else:
        raise AssertionError("no error")


def mismatch():
    dist.barrier()  # no rank needs the store, which exits with rank 0
    named(lambda: dist.all_reduce(torch.ones(4 if dist.get_rank() == 1 else 3)))
    named(dist.barrier)  # all is over


def late():
    """Rank 1 arrives after the others have reported that it was missing, and gets an error as
    well."""
    group = dist.new_group(backend="muster", timeout=timedelta(seconds=1))
    if dist.get_rank() == 1:
        dist.barrier()
    named(lambda: dist.broadcast(torch.ones(3), 0, group=group))
    if dist.get_rank() != 1:
        dist.barrier()


def tagged():
    x = torch.ones(3)
    if dist.get_rank() == 1:
        dist.send(x, 0, tag=3)
        dist.send(x, 2, tag=3)
    else:
        dist.recv(x, 1, tag=3)
    die_if_chosen()
    named(lambda: dist.recv(x, 1, tag=3))


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
    {"collective": collective, "ddp": ddp, "mismatch": mismatch, "late": late,
     "tagged": tagged}[sys.argv[1]]()
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
