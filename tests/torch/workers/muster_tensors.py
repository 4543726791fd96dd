# SPDX-License-Identifier: Apache-2.0
"""Tensors through muster.Communicator, without torch.distributed: every type, including those that
NumPy lacks, and sizes without common divisors; f16 and bf16 are summed in f32 and rounded once."""
import os

import torch

import muster

TYPES = [getattr(torch, name) for name in (
    "int8", "uint8", "int32", "int64", "float16", "float32", "float64", "bfloat16", "uint32",
    "uint64") if hasattr(torch, name)]
UNEVEN = (0, 1, 7, 1025, 70001)
HALVES = (torch.float16, torch.bfloat16)


def rows(size, count, dtype):
    """The input of each rank; thirds if the type has fractions, so that sums are rounded."""
    generator = torch.Generator().manual_seed(count)
    whole = torch.randint(1, 9, (size, count), generator=generator)
    return (whole / 3).to(dtype) if dtype.is_floating_point else whole.to(dtype)


def summed(all_rows, divisor=1):
    """In rank order."""
    wide = all_rows.to(torch.float32) if all_rows.dtype in HALVES else all_rows
    wide = wide.to(torch.int64) if not wide.dtype.is_floating_point else wide
    total = wide[0].clone()
    for row in wide[1:]:
        total += row
    return (total / divisor if divisor > 1 else total).to(all_rows.dtype)


def expect(got, wanted, what):
    assert got.dtype is wanted.dtype and got.shape == wanted.shape, (what, got, wanted)
    same = got.numpy().tobytes() == wanted.numpy().tobytes() if got.dtype not in HALVES else (
        torch.equal(got.view(torch.int16), wanted.view(torch.int16)))
    assert same, (what, got, wanted)


def check(comm, dtype, count):
    me, size, what = comm.rank, comm.size, (dtype, count)
    mine = rows(size, count, dtype)
    x = mine[me].clone()
    assert comm.all_reduce(x) is x
    expect(x, summed(mine), ("sum", *what))
    if dtype.is_floating_point:
        x = mine[me].clone()
        comm.all_reduce(x, "avg", async_op=True).wait()
        expect(x, summed(mine, size), ("avg", *what))
    x = mine[me].clone()
    comm.reduce(x, size - 1, "max")
    if me == size - 1:
        expect(x, mine.double().amax(0).to(dtype), ("max", *what))
    expect(comm.all_gather(mine[me].clone()), mine, ("all_gather", *what))
    parts = rows(size, count * size, dtype)
    expect(comm.reduce_scatter(parts[me].clone()),
           summed(parts)[me * count:(me + 1) * count], ("reduce_scatter", *what))
    expect(comm.all_to_all(parts[me].clone()),
           parts.view(size, size, count)[:, me].reshape(-1), ("all_to_all", *what))
    x = mine[me].clone()
    comm.broadcast(x, size - 1)
    expect(x, mine[size - 1], ("broadcast", *what))


def check_buckets(comm, dtype):
    """The library's memory as a tensor of a type that NumPy may not have."""
    mine = rows(comm.size, 1025, dtype)
    bucket = comm.alloc(1025, str(dtype).rpartition(".")[2])
    bucket.torch().copy_(mine[comm.rank])
    comm.all_reduce(bucket)
    expect(bucket.torch().clone(), summed(mine), ("bucket", dtype))


def main():
    with muster.Communicator.from_env() as comm:
        for dtype in TYPES:
            for count in UNEVEN:
                check(comm, dtype, count)
        for dtype in (*HALVES, torch.float32):
            check_buckets(comm, dtype)
        os.write(1, f"rank {comm.rank}: all tensors as they should be\n".encode())


if __name__ == "__main__":
    main()
