# SPDX-License-Identifier: Apache-2.0
"""A rank under any launcher that uses the package muster without torch.distributed. Words: "sums",
"hosts" (each agent's ranks form a separate host), "restart" (rank 1 dies in the first epoch)."""
import os
import signal
import sys

import torch

import muster


def say(text):
    os.write(1, f"{text}\n".encode())


def sums(comm):
    """Every way to have several communicators in one process, all used in turn."""
    same_name = muster.Communicator.from_env()
    other_name = muster.Communicator.from_env(name="other")
    part = comm.split(comm.rank % 2, key=comm.rank)
    total = comm.size * (comm.size + 1) // 2
    for count in (5, 300000):
        started = []
        for each in (comm, same_name, other_name):
            x = torch.full((count,), float(comm.rank + 1))
            started.append((x, each.all_reduce(x, async_op=True)))
        for x, work in reversed(started):
            work.wait()
            assert (x == total).all(), x
    x = part.all_gather(torch.tensor([comm.rank]))
    assert x.flatten().tolist() == list(range(comm.rank % 2, comm.size, 2)), x
    sync = muster.GradientSync(comm)
    sync.add("weights", (100, 3))
    sync.finalize()
    with sync.step():
        sync.grad(0).torch().fill_(comm.rank + 1)
        sync.mark_ready(0)
    assert (sync.grad(0).torch() == total / comm.size).all()
    child = os.fork()
    if child == 0:
        try:
            comm.barrier()
        except muster.InvalidState:
            os._exit(42)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 42
    comm.barrier()


def restart(comm):
    x = torch.ones(1000)
    comm.all_reduce(x)
    if comm.epoch == 0:
        if comm.rank == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        try:
            comm.barrier()
        except muster.PeerFailed as error:
            assert error.rank == 1, error
            raise SystemExit(3)
    assert (x == comm.size).all()


def main():
    what = sys.argv[1]
    host = f"agent {os.environ['GROUP_RANK']}" if what == "hosts" else None
    with muster.Communicator.from_env(host=host) as comm:
        {"sums": sums, "hosts": sums, "restart": restart}[what](comm)
        say(f"rank {comm.rank} of {comm.size} by {comm.backend} in epoch {comm.epoch}")


if __name__ == "__main__":
    main()
