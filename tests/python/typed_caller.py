# SPDX-License-Identifier: Apache-2.0
"""What a type checker reports about calls: test_typing.py runs mypy over this file; the file is
never executed. A line with "type: ignore" must be an error of that kind, because mypy reports
unused ones."""
from typing import Optional, Tuple

import muster
from muster.typing import Array


def results(comm: muster.Communicator, x: bytearray, out: memoryview, flag: bool) -> None:
    in_place: bytearray = comm.all_reduce(x)
    elsewhere: memoryview = comm.all_reduce(x, out=out)
    positional: memoryview = comm.all_reduce(x, "sum", out)
    started: muster.Work = comm.all_reduce(x, "avg", async_op=True, timeout=2.5)
    either: object = comm.all_reduce(x, async_op=flag)
    gathered: memoryview = comm.all_gather(x, out)
    received: bytearray = comm.recv(x, 1)
    comm.send(x, 0).wait()  # type: ignore[attr-defined]
    wrong: bytearray = comm.all_reduce(x, out=out)  # type: ignore[assignment]
    not_started: muster.Work = comm.broadcast(x)  # type: ignore[assignment]


def arguments(comm: muster.Communicator, x: Array) -> None:
    comm.all_reduce(x, "plus")  # type: ignore[call-overload]
    comm.broadcast([1.0])  # type: ignore[call-overload]
    comm.reduce(x, "root")  # type: ignore[call-overload]
    muster.Communicator.from_env(backend="rdma")  # type: ignore[arg-type]
    muster.Communicator.create(("node1", 29400), 0, 2, init_timeout="5 s")  # type: ignore[arg-type]
    part: muster.Communicator = comm.split(0)  # type: ignore[assignment]
    maybe: Optional[muster.Communicator] = comm.split(0)


def hook(comm: muster.Communicator, bucket: muster.ArrayView) -> Optional[muster.Work]:
    comm.all_reduce(bucket, "avg", async_op=True)
    started = comm.all_reduce(bucket, async_op=True)
    return started


def wrong_hook(comm: muster.Communicator) -> None: ...


def gradients(comm: muster.Communicator) -> Tuple[float, bool]:
    sync = muster.GradientSync(comm, wire="bf16", hook=hook)
    muster.GradientSync(comm, hook=wrong_hook)  # type: ignore[arg-type]
    weight: int = sync.add("weight", (3, 4))
    with sync.step() as step:
        step.mark_ready(weight)
        step.mark_ready("weight")  # type: ignore[arg-type]
    stats = sync.wait()
    return stats.exposed, stats.moved


def jobs() -> int:
    results = muster.launch(len, "four", nproc="auto", warm=["json"], max_restarts=2)
    first: object = results[0]
    muster.launch("train.py", 0.1, env={"A": "b"})
    muster.launch(3)  # type: ignore[arg-type]
    muster.launch(len, env={"A": 1})  # type: ignore[dict-item]
    muster.notebook_launcher(len, ("four",), 2, use_port=0)
    muster.notebook_launcher(len, num_processes="2")  # type: ignore[arg-type]
    try:
        muster.launch(len)
    except muster.WorkerError as error:
        return error.rank
    except muster.JobError as error:
        return error.rank  # type: ignore[attr-defined, no-any-return]
    return 0


def errors(comm: muster.Communicator) -> int:
    try:
        comm.barrier(timeout=1)
    except muster.PeerFailed as error:
        return error.rank  # type: ignore[return-value]
    return 0
