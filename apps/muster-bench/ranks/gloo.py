# SPDX-License-Identifier: Apache-2.0
"""The same cells as in bench-ranks, run with torch.distributed over gloo, in place.

    python gloo.py RANKS sums CELL...     times, one line per cell
    python gloo.py RANKS death MIB        microseconds from SIGKILL of a rank until all others
                                          have an error
"""
import datetime
import os
import signal
import socket
import statistics
import sys
import time


def pattern(torch, dtype, rank, ranks, sums):
    """Four elements as in cell.cpp: the input of this rank (sums 0), or the result after
    `sums`."""
    small = [1 + (i + rank) % 4 for i in range(4)]
    if sums:
        small = [sum(1 + (i + r) % 4 for r in range(ranks)) * ranks ** (sums - 1)
                 for i in range(4)]
    if dtype.is_floating_point:
        small = [value * 2.0 ** (-12 if dtype == torch.float16 else -100) for value in small]
        return torch.tensor(small, dtype=torch.float64).to(dtype)
    bits = 8 * dtype.itemsize
    return torch.tensor([(value + 2 ** (bits - 1)) % 2 ** bits - 2 ** (bits - 1)
                         for value in small], dtype=dtype)


def batch(torch, dist, data, sums):
    """Returns the time of a batch on this rank in seconds."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    data.view(-1, 4 if data.numel() % 4 == 0 else 1)[:] = \
        pattern(torch, data.dtype, rank, ranks, 0)[:4 if data.numel() % 4 == 0 else 1]
    dist.barrier()
    begin = time.perf_counter()
    for _ in range(sums):
        dist.all_reduce(data)
    spent = time.perf_counter() - begin
    expected = pattern(torch, data.dtype, rank, ranks, sums)
    width = 4 if data.numel() % 4 == 0 else 1
    if not (data.view(-1, width) == expected[:width]).all():
        raise SystemExit("gloo.py: wrong sum")
    return spent


def perform(dist, operation, data, out):
    part = data.numel() // dist.get_world_size()
    if operation == "broadcast":
        dist.broadcast(out, 0)
    elif operation == "all_gather":
        dist.all_gather_into_tensor(out, data[:part])
    elif operation == "reduce_scatter":
        dist.reduce_scatter_tensor(out[:part], data)
    else:
        dist.all_to_all_single(out, data)


def batch_of_others(torch, dist, operation, data, times):
    """Like batch, but from one buffer to another, as in operations.cpp."""
    rank, ranks, out = dist.get_rank(), dist.get_world_size(), torch.empty_like(data)
    to_each, scatter = operation == "all_to_all", operation == "reduce_scatter"
    for i, block in enumerate(data.view(ranks, -1)):
        block.view(-1, 4)[:] = pattern(torch, data.dtype, rank + 2 * i * to_each, ranks, 0)
    out.view(-1, 4)[:] = pattern(torch, data.dtype, rank, ranks, 0)
    dist.barrier()
    begin = time.perf_counter()
    for _ in range(times):
        perform(dist, operation, data, out)
    spent = time.perf_counter() - begin
    for i, block in enumerate(out.view(ranks, -1)[:1 if scatter else ranks]):
        giver = 0 if operation == "broadcast" else i + 2 * rank * to_each
        expected = pattern(torch, data.dtype, giver, ranks, 1 if scatter else 0)
        if not (block.view(-1, 4) == expected).all():
            raise SystemExit(f"gloo.py: wrong result of {operation}")
    return spent


def time_sums(torch, dist, arguments):
    types = {"f32": torch.float32, "f64": torch.float64, "f16": torch.float16,
             "bf16": torch.bfloat16, "i8": torch.int8, "i32": torch.int32, "i64": torch.int64}
    for word in arguments:
        *key, sums, batches = word.split(":")
        dtype = types[key[-2]]
        data = torch.empty(int(key[-1]) // dtype.itemsize, dtype=dtype)

        def seconds(count):
            if len(key) == 2:
                return batch(torch, dist, data, count)
            return batch_of_others(torch, dist, key[0], data, count)

        seconds(min(3, int(sums)))
        times = torch.tensor([seconds(int(sums)) / int(sums) for _ in range(int(batches))],
                             dtype=torch.float64)
        dist.all_reduce(times, dist.ReduceOp.MAX)
        if dist.get_rank() == 0:
            print(f"{':'.join(key)} {statistics.median(times.tolist()) * 1e6:.9g}", flush=True)


def until_error(torch, dist, mib):
    """The last rank allocates `mib` MiB and is killed by the parent while all ranks sum."""
    ballast = torch.ones(mib << 18) if dist.get_rank() == dist.get_world_size() - 1 else None
    data = torch.ones(256)
    for step in range(1 << 40):
        try:
            dist.all_reduce(data, dist.ReduceOp.MAX)
        except RuntimeError:
            os.write(1, b"%d\n" % time.monotonic_ns())
            os._exit(0)
        if step == 100:
            os.write(1, b"up\n")
    return ballast


def serve_rank(rank, ranks, port, what, arguments):
    os.environ.update(RANK=str(rank), WORLD_SIZE=str(ranks), MASTER_ADDR="127.0.0.1",
                      MASTER_PORT=str(port), OMP_NUM_THREADS="1")
    import torch
    import torch.distributed as dist
    torch.set_num_threads(1)
    dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=100))
    if what == "death":
        until_error(torch, dist, int(arguments[0]))
    time_sums(torch, dist, arguments)
    dist.barrier()
    os._exit(0)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def lines_from(fd):
    with os.fdopen(fd) as stream:
        yield from stream


def oversee_death(pids, reports):
    """Kills the last rank once all ranks are running. Prints the time until all others have an
    error."""
    lines = lines_from(reports)
    for _ in pids:
        next(lines)
    begin = time.monotonic_ns()
    os.kill(pids[-1], signal.SIGKILL)
    last = max(int(next(lines)) for _ in pids[1:])
    print(f"death {(last - begin) / 1e3:.9g}")


def main():
    ranks, what, arguments, port = int(sys.argv[1]), sys.argv[2], sys.argv[3:], free_port()
    reports, ends = os.pipe()
    pids = []
    for rank in range(ranks):
        pid = os.fork()
        if pid == 0:
            if what == "death":
                os.dup2(ends, 1)
            serve_rank(rank, ranks, port, what, arguments)
        pids.append(pid)
    os.close(ends)
    if what == "death":
        oversee_death(pids, reports)
    codes = [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids]
    sys.exit(max(codes) if what == "sums" else 0)


if __name__ == "__main__":
    main()
