# SPDX-License-Identifier: Apache-2.0
"""Every collective of the backend "muster" compared with plain arithmetic; as the default group, or
("new_group") as a group alongside gloo. Each rank knows all inputs."""
import sys
from datetime import timedelta

import torch
import torch.distributed as dist

import muster
import muster.torch  # registers the backend

TYPES = [torch.int8, torch.uint8, torch.int32, torch.int64, torch.float16, torch.float32,
         torch.float64, torch.bfloat16]
SIZES = [(1,), (3, 5), (40000,)]
group = None


def inputs(shape, dtype):
    """Row r is the input of rank r; small even numbers, so that every result is exact."""
    generator = torch.Generator().manual_seed(7)
    rows = torch.randint(1, 3, (dist.get_world_size(), *shape), generator=generator)
    return (2 * rows).to(dtype)


def expect(got, wanted, what):
    assert got.shape == wanted.shape and got.dtype == wanted.dtype, (what, got, wanted)
    assert torch.equal(got, wanted), (what, got, wanted)


def combined(rows, op):
    exact = rows.to(torch.float64)
    total = {"SUM": exact.sum(0), "PRODUCT": exact.prod(0), "MIN": exact.amin(0),
             "MAX": exact.amax(0)}[op]
    return total.to(rows.dtype)


def check_reductions(shape, dtype):
    me, size = dist.get_rank(), dist.get_world_size()
    rows = inputs(shape, dtype)
    for op in ("SUM", "PRODUCT", "MIN", "MAX"):
        what = (op, shape, dtype)
        x = rows[me].clone()
        dist.all_reduce(x, getattr(dist.ReduceOp, op), group=group)
        expect(x, combined(rows, op), what)
        x = rows[me].clone()
        dist.reduce(x, size - 1, getattr(dist.ReduceOp, op), group=group)
        expect(x, combined(rows, op) if me == size - 1 else rows[me], what)
        lists = inputs((size, *shape), dtype)
        out = torch.empty(shape, dtype=dtype)
        dist.reduce_scatter(out, [part.clone() for part in lists[me]],
                            getattr(dist.ReduceOp, op), group=group)
        expect(out, combined(lists[:, me], op), what)
    x = rows[me].clone().t() if len(shape) == 2 else rows[me].clone()  # not contiguous
    work = dist.all_reduce(x, group=group, async_op=True)
    work.wait()
    assert work.is_completed() and work.is_success() and work.exception() is None
    expect(x.t() if len(shape) == 2 else x, combined(rows, "SUM"), "async")


def check_moves(shape, dtype):
    me, size = dist.get_rank(), dist.get_world_size()
    rows = inputs(shape, dtype)
    for root in range(size):
        x = rows[me].clone()
        dist.broadcast(x, root, group=group)
        expect(x, rows[root], "broadcast")
        parts = [torch.empty(shape, dtype=dtype) for _ in range(size)] if me == root else None
        dist.gather(rows[me].clone(), parts, root, group=group)
        if me == root:
            expect(torch.stack(parts), rows, "gather")
        lists = inputs((size, *shape), dtype)
        out = torch.empty(shape, dtype=dtype)
        dist.scatter(out, list(lists[root]) if me == root else None, root, group=group)
        expect(out, lists[root, me], "scatter")
    parts = [torch.empty(shape, dtype=dtype) for _ in range(size)]
    dist.all_gather(parts, rows[me].clone(), group=group)
    expect(torch.stack(parts), rows, "all_gather")
    out = torch.empty((size * shape[0], *shape[1:]), dtype=dtype)
    dist.all_gather_into_tensor(out, rows[me].clone(), group=group)
    expect(out.view(rows.shape), rows, "all_gather_into_tensor")
    lists = inputs((size, *shape), dtype)
    out = torch.empty(shape, dtype=dtype)
    dist.reduce_scatter_tensor(out, lists[me].reshape(size * shape[0], *shape[1:]), group=group)
    expect(out, combined(lists[:, me], "SUM"), "reduce_scatter_tensor")
    out = torch.empty((size, *shape), dtype=dtype)
    dist.all_to_all_single(out, lists[me].clone(), group=group)
    expect(out, lists[:, me], "all_to_all_single")
    parts = [torch.empty(shape, dtype=dtype) for _ in range(size)]
    dist.all_to_all(parts, [part.clone() for part in lists[me]], group=group)
    expect(torch.stack(parts), lists[:, me], "all_to_all")


def check_unequal():
    """Rank r sends r + j rows to rank j."""
    me, size = dist.get_rank(), dist.get_world_size()
    to_others = [me + j for j in range(size)]
    to_me = [j + me for j in range(size)]
    source = torch.full((sum(to_others), 2), float(me))
    out = torch.empty(sum(to_me), 2)
    dist.all_to_all_single(out, source, to_me, to_others, group=group)
    expect(out, torch.cat([torch.full((j + me, 2), float(j)) for j in range(size)]), "unequal")
    parts = [torch.empty(j + me) for j in range(size)]
    dist.all_to_all(parts, [torch.full((me + j,), float(me)) for j in range(size)], group=group)
    for j, part in enumerate(parts):
        expect(part, torch.full((j + me,), float(j)), "all_to_all with sizes")


def check_transfers():
    me, size = dist.get_rank(), dist.get_world_size()
    right, left = (me + 1) % size, (me - 1) % size
    x, y = torch.arange(5) + me, torch.zeros(5, dtype=torch.int64)
    sent = dist.isend(x, right, group=group)
    got = dist.irecv(y, left, group=group)
    got.wait()
    sent.wait()
    expect(y, torch.arange(5) + left, "isend")
    if me == 0:
        dist.send(x, 1, group=group)
    elif me == 1:
        dist.recv(y, 0, group=group)
        expect(y, torch.arange(5), "send")
    works = dist.batch_isend_irecv([dist.P2POp(dist.isend, x, left, group),
                                    dist.P2POp(dist.irecv, y, right, group)])
    for work in works:
        work.wait()
    expect(y, torch.arange(5) + right, "batch_isend_irecv")


def check_objects():
    me, size = dist.get_rank(), dist.get_world_size()
    everything = [None] * size
    dist.all_gather_object(everything, {"rank": me, "list": list(range(me))}, group=group)
    assert everything == [{"rank": r, "list": list(range(r))} for r in range(size)], everything
    some = ["from 0" if me == 0 else None, me]
    dist.broadcast_object_list(some, 0, group=group)
    assert some == ["from 0", 0], some
    out = [None]
    dist.scatter_object_list(out, [f"for {r}" for r in range(size)] if me == 0 else [None] * size,
                             0, group=group)
    assert out == [f"for {me}"], out


def check_special():
    me, size = dist.get_rank(), dist.get_world_size()
    x = torch.tensor([0b1100 | me, 0b1010])
    for op, wanted in (("BOR", 0b1100 | size - 1 | (size > 2)), ("BAND", 0b1100),
                       ("BXOR", None)):
        y = x.clone()
        dist.all_reduce(y, getattr(dist.ReduceOp, op), group=group)
        if wanted is not None:
            assert y[0] == wanted, (op, y)
        assert y[1] == (0b1010 if op != "BXOR" or size % 2 else 0), (op, y)
    y = torch.full((3,), float(me))
    dist.all_reduce(y, dist.ReduceOp.AVG, group=group)
    expect(y, torch.full((3,), (size - 1) / 2), "AVG")
    if hasattr(dist.ReduceOp, "factor"):  # PyTorch 1.13 does not report it
        y = torch.full((3,), 2. * me)
        dist.all_reduce(y, dist._make_nccl_premul_sum(0.5), group=group)
        expect(y, torch.full((3,), size * (size - 1) / 2), "PREMUL_SUM")
    y = torch.tensor([me == 1, True, False])
    dist.all_reduce(y, group=group)
    expect(y, torch.tensor([True, True, False]), "bool")
    y = torch.complex(torch.ones(3), torch.full((3,), float(me)))
    dist.all_reduce(y, group=group)
    expect(y, torch.complex(torch.full((3,), float(size)), torch.full((3,), size * (size - 1) / 2)),
           "complex")
    sparse = torch.sparse_coo_tensor([[0, me + 1]], [[1., 2.], [3., 4.]], (size + 1, 2))
    wanted = sum(torch.sparse_coo_tensor([[0, r + 1]], [[1., 2.], [3., 4.]],
                                         (size + 1, 2)).to_dense() for r in range(size))
    dist.all_reduce(sparse, group=group)
    expect(sparse.to_dense(), wanted, "sparse")
    y = torch.ones(0)
    dist.all_reduce(y, group=group)
    many = [torch.full((n + 1,), float(me)) for n in range(4)]
    dist.all_reduce_coalesced(many, group=group)
    for n, each in enumerate(many):
        expect(each, torch.full((n + 1,), size * (size - 1) / 2), "all_reduce_coalesced")


def check_futures():
    size = dist.get_world_size()
    works = [dist.all_reduce(torch.full((1000,), float(n)), group=group, async_op=True)
             for n in range(30)]
    twice = works[0].get_future().then(lambda future: future.value()[0] * 2)
    futures = [work.get_future() for work in works]
    for n, future in enumerate(futures):
        assert (future.wait()[0] == n * size).all(), n
    assert (twice.wait() == 0).all() and futures[3].done()
    work = dist.all_reduce(torch.ones(2), group=group, async_op=True)
    work.wait(timedelta(seconds=60))
    assert (work.result()[0] == size).all()
    barrier = dist.barrier(group=group, async_op=True)
    barrier.wait()


def check_refusals():
    def refused(call, word):
        try:
            call()
        except muster.Error as error:
            assert word in str(error), error
        else:
            raise AssertionError(f"{word}: not refused")
    x = torch.ones(2)
    refused(lambda: dist.all_reduce(torch.ones(2, dtype=torch.int16), group=group), "int16")
    if isinstance(group, muster.torch.ProcessGroup):  # the compiled backend gets no other tensors
        refused(lambda: dist.all_reduce(torch.ones(2, device="meta"), group=group),
                "supports only CPU tensors")
    refused(lambda: dist.all_reduce(x, dist.ReduceOp.BOR, group=group), "BOR")


def main():
    global group
    if sys.argv[1:] == ["new_group"]:
        dist.init_process_group("gloo", timeout=timedelta(seconds=100))
        group = dist.new_group(backend="muster")
    else:
        dist.init_process_group("muster", timeout=timedelta(seconds=100))
        group = dist.group.WORLD
    assert dist.get_backend(group) == "muster"
    for shape in SIZES:
        for dtype in TYPES:
            check_reductions(shape, dtype)
            check_moves(shape, dtype)
    for check in (check_unequal, check_transfers, check_objects, check_special, check_futures,
                  check_refusals):
        check()
    if dist.get_world_size() > 2:
        pair = dist.new_group([0, 2], backend="muster")
        if dist.get_rank() in (0, 2):
            x = torch.ones(3)
            dist.all_reduce(x, group=pair)
            expect(x, torch.full((3,), 2.), "pair")
            dist.broadcast(x, 2, group=pair)
    dist.barrier(group=group)
    print(f"rank {dist.get_rank()} of {dist.get_world_size()} is done\n", end="", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
