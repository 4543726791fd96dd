# SPDX-License-Identifier: Apache-2.0
"""Programs that hang in PyTorch, like those in kinds.py."""
import contextlib
import os
import signal
import site
import sys
import threading
import time

from kind import FOREVER, kind, only_rank_1

PACKAGE = os.path.join(os.path.dirname(__file__), *[os.pardir] * 2, "lib", "python")


@contextlib.contextmanager
def busy():
    """Prints lines meanwhile: on a busy machine, importing PyTorch takes as long as a hang."""
    done = threading.Event()

    def report():
        while not done.wait(0.2):
            print("starting", flush=True)

    reporter = threading.Thread(target=report)
    reporter.start()
    try:
        yield
    finally:
        done.set()
        reporter.join()


class Torch:
    """With gloo, only lines of output are visible; with the backend "muster", its operations
    are."""

    def __init__(self, backend, trains):
        with busy():
            self.start(backend, trains)
        for step in range(3):
            self.sum()
            print("step", step, flush=True)

    def start(self, backend, trains):
        if backend == "gloo":
            site.addsitedir(PACKAGE)  # does what the .pth file of an installed package does
        import torch
        import torch.distributed as dist
        if backend == "muster":
            import muster.torch  # noqa: F401
        dist.init_process_group(backend)
        self.rank, self.dist, self.torch = dist.get_rank(), dist, torch
        if trains:
            import torch.utils.data
            train(self, [torch.ones(2, 4)], loud=False)

    def sum(self):
        self.dist.all_reduce(self.torch.ones(4))

    def barrier(self):
        self.dist.barrier()


@kind("sleeps", torch="gloo")
@only_rank_1
def gloo_sleep(_):
    time.sleep(FOREVER)


@kind("stopped", torch="gloo")
@only_rank_1
def gloo_stopped(_):
    os.kill(os.getpid(), signal.SIGSTOP)


@kind("different_collective", torch="gloo", words="barrier")
def gloo_other_operation(comm):
    if comm.rank == 1:
        comm.barrier()
    comm.sum()


@kind("skipped_collective", torch="gloo", words="comes before it")
def gloo_skipped(comm):
    """Needs PyTorch's flight recorder, because judging by their stacks the others might as well be
    ahead."""
    for step in range(6):
        if comm.rank != 1 or step != 4:
            comm.barrier()
        comm.sum()
        comm.dist.broadcast(comm.torch.ones(4), 0)


@kind("different_collective", torch="gloo", words="#1 all_reduce f32[4] of group 1")
def gloo_other_group(comm):
    """All ranks have the same stacks."""
    groups = [comm.dist.new_group() for _ in range(2)]
    order = reversed(groups) if comm.rank == 1 else groups
    for group in order:
        comm.dist.all_reduce(comm.torch.ones(4), group=group)


@kind("skipped_collective", torch="cpu:gloo", words="comes before it")
def nccl_pipe(comm):
    """PyTorch's own writer and the trigger of its NCCL backend, without NCCL: a thread listens on
    the pipe named by TORCH_NCCL_DEBUG_INFO_PIPE_FILE, and logs a line for each request, like the
    thread in PyTorch."""
    from torch._C import _distributed_c10d as native
    place = os.environ["TORCH_NCCL_DEBUG_INFO_PIPE_FILE"] + f"{comm.rank}.pipe"
    os.mkfifo(place)
    pipe = os.open(place, os.O_RDWR)

    def listen():
        while os.read(pipe, 128):
            print(f"[rank{comm.rank}]:[E ProcessGroupNCCL.cpp:1628] [PG ID 0] ProcessGroupNCCL "
                  "preparing to dump debug info.", file=sys.stderr, flush=True)
            native._dump_fr_trace_file(comm.rank)
    threading.Thread(target=listen, daemon=True).start()
    gloo_skipped(comm)


@kind("sleeps", torch="gloo")
def gloo_asynchronous(comm):
    if comm.rank == 1:
        time.sleep(FOREVER)
    comm.dist.all_reduce(comm.torch.ones(4), async_op=True).wait()


@kind("deadlocked", torch="gloo")
@only_rank_1
def gloo_lock(_):
    lock = threading.Lock()
    with lock:
        lock.acquire()


@kind("skipped_collective", torch="gloo", words="get_nowhere")
def gloo_store(comm):
    """It waits for a key in the store that no rank sets."""
    def get_nowhere():
        comm.dist.distributed_c10d._get_default_store().get("nowhere")
    if comm.rank == 1:
        get_nowhere()
    comm.barrier()


def train(comm, batches, loud=True):
    model = comm.torch.nn.parallel.DistributedDataParallel(comm.torch.nn.Linear(4, 1))
    for batch in batches:
        model(batch).sum().backward()
        if loud:
            print("step", flush=True)


@kind("sleeps", torch="gloo", trains=True)
def ddp_sleep(comm):
    """The others wait in their backward pass."""
    def batches():
        for step in range(4):
            if comm.rank == 1 and step == 3:
                time.sleep(FOREVER)
            yield comm.torch.ones(2, 4)
    train(comm, batches())


class Data:
    """Items for a DataLoader; the third item on rank 1 does something."""

    def __init__(self, comm, action):
        self.ones, self.action = comm.torch.ones(4), action if comm.rank == 1 else None

    def __len__(self):
        return 8

    def __getitem__(self, index):
        if index == 3 and self.action is not None:
            self.action()
        return self.ones


def stop_self():
    os.kill(os.getpid(), signal.SIGSTOP)


def sleep_forever():
    time.sleep(FOREVER)


@kind("data_loader", torch="gloo", words="stopped by a signal", trains=True)
def loader_stopped(comm):
    from torch.utils.data import DataLoader
    train(comm, DataLoader(Data(comm, stop_self), batch_size=1, num_workers=1))


@kind("data_loader", torch="gloo", words="sleeping", trains=True)
def loader_sleeps(comm):
    from torch.utils.data import DataLoader
    train(comm, DataLoader(Data(comm, sleep_forever), batch_size=1, num_workers=2))


@kind("sleeps", torch="gloo", words="sleep_forever", trains=True)
def loader_in_process(comm):
    from torch.utils.data import DataLoader
    train(comm, DataLoader(Data(comm, sleep_forever), batch_size=1))


@kind("sleeps", torch="muster")
@only_rank_1
def muster_sleep(_):
    time.sleep(FOREVER)


@kind("spinning", torch="muster", words="muster_spin")
@only_rank_1
def muster_spin(_):
    while True:
        pass
