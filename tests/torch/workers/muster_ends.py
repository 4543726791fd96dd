# SPDX-License-Identifier: Apache-2.0
"""Processes that exit without destroy_process_group() while something is in progress. "callback": a
future's callback runs, no rank joins an operation, a receive from any source waits. "thread":
another thread is in an operation. "exception": one leaves main() after starting an asynchronous
operation. "exit": os._exit. "killed": rank 1 dies in an asynchronous operation. "dropped": rank 0
drops a group with an operation in progress, which rank 1 then joins."""
import gc
import os
import signal
import sys
import threading
from datetime import timedelta

import torch
import torch.distributed as dist

import muster.torch  # registers the backend
from muster.torch import bootstrap


def callback():
    never = threading.Event()
    begun = threading.Event()

    def in_callback(future):
        begun.set()
        never.wait(0.5)  # so that the thread is in here when the process exits
        return future.value()
    chained = dist.all_reduce(torch.ones(3), async_op=True).get_future().then(in_callback)
    dist.barrier()
    waiting = dist.irecv(torch.ones(1)) if dist.get_rank() == 0 else None
    if dist.get_rank() == 0:
        dist.all_reduce(torch.ones(3), async_op=True).get_future().then(lambda future: 1)
    begun.wait(60)
    return chained, waiting


def thread():
    group = dist.new_group(backend="muster")
    begun = threading.Event()

    def sum_on():
        x = torch.ones(1000)
        while True:
            dist.all_reduce(x, group=group)
            begun.set()
    threading.Thread(target=sum_on, daemon=True).start()
    begun.wait(60)


def exception():
    work = dist.all_reduce(torch.ones(100000), async_op=True) if dist.get_rank() == 0 else None
    os.write(1, f"rank {dist.get_rank()} ends\n".encode())
    raise SystemExit(0 if work is None else 7)


def leaves():
    try:
        dist.all_reduce(torch.ones(100000), async_op=True)
    except RuntimeError as error:
        assert "has died" in str(error), error  # the other rank was here first
    os.write(1, f"rank {dist.get_rank()} ends\n".encode())
    os._exit(0)


def killed():
    dist.barrier()
    work = dist.all_reduce(torch.ones(3_000_000), async_op=True) if dist.get_rank() else None
    if dist.get_rank() == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    try:
        (work or dist.all_reduce(torch.ones(3_000_000), async_op=True)).get_future().wait()
    except RuntimeError as error:
        assert "rank 1" in str(error), error
        return
    raise AssertionError("no error")


def dropped():
    rank = dist.get_rank()
    store = dist.PrefixStore("dropped", dist.distributed_c10d._get_default_store())
    group = bootstrap.create(store, rank, 2, timedelta(seconds=60))
    x = torch.full((3,), 1.0 + rank)
    if rank == 0:
        group.allreduce([x])
        store.set("under way", "1")
        del group
        gc.collect()
    else:
        store.wait(["under way"])
        group.allreduce([x]).wait()
        assert x.tolist() == [3, 3, 3], x


def main():
    dist.init_process_group("muster")
    kept = {"callback": callback, "thread": thread, "exception": exception, "exit": leaves,
            "killed": killed, "dropped": dropped}[sys.argv[1]]()
    os.write(1, f"rank {dist.get_rank()} ends\n".encode())
    del kept


if __name__ == "__main__":
    main()
