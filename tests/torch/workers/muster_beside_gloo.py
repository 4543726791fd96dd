# SPDX-License-Identifier: Apache-2.0
"""The same calls on a gloo group and on a muster group, in one process, give the same results.
Where this PyTorch's gloo rejects a call, muster must give the result of plain arithmetic."""
import os
from datetime import timedelta

import torch
import torch.distributed as dist

import muster
import muster.torch  # registers the backend

IS_OLD = int(torch.__version__.split(".")[0]) < 2
INTEGERS = [torch.uint8, torch.int32, torch.int64]
FOLDS = {"BAND": torch.bitwise_and, "BOR": torch.bitwise_or, "BXOR": torch.bitwise_xor,
         "SUM": torch.add, "PRODUCT": torch.mul, "MIN": torch.minimum, "MAX": torch.maximum}
LEAST_OF_GLOO = 14  # calls that gloo supports in every version; otherwise nothing would be compared


def rows(dtype, *shape):
    """The input of each rank."""
    generator = torch.Generator().manual_seed(5)
    return torch.randint(1, 14, (dist.get_world_size(), *shape), generator=generator).to(dtype)


def fold(all_rows, op):
    total = all_rows[0]
    for row in all_rows[1:]:
        total = FOLDS[op](total, row)
    return total


def reduce_case(op, dtype):
    mine, last = rows(dtype, 9), dist.get_world_size() - 1
    me = dist.get_rank()

    def call(group):
        x = mine[me].clone()
        dist.reduce(x, last, getattr(dist.ReduceOp, op), group=group)
        return x if me == last else None  # other elements are unspecified
    return call, fold(mine, op) if me == last else None


def reduce_scatter_case(op, dtype):
    me = dist.get_rank()
    mine = rows(dtype, dist.get_world_size(), 4)

    def call(group):
        out = torch.empty(4, dtype=dtype)
        dist.reduce_scatter(out, [part.clone() for part in mine[me]], getattr(dist.ReduceOp, op),
                            group=group)
        return out
    return call, fold(mine[:, me], op)


def bool_case(op):
    me = dist.get_rank()
    mine = torch.tensor([[r == 0, True, False, r > 0] for r in range(dist.get_world_size())])

    def call(group):
        x = mine[me].clone()
        dist.all_reduce(x, getattr(dist.ReduceOp, op), group=group)
        return x.view(torch.uint8) != 0  # a byte may be the number of ranks with a true value
    return call, fold(mine.to(torch.uint8), {"SUM": "MAX", "PRODUCT": "MIN"}.get(op, op)) != 0


def gather_object_case():
    me, size = dist.get_rank(), dist.get_world_size()

    def call(group):
        out = [None] * size if me == 1 else None
        dist.gather_object({"from": me, "much": "x" * 1000 * me}, out, dst=1, group=group)
        return out
    wanted = [{"from": r, "much": "x" * 1000 * r} for r in range(size)]
    return call, wanted if me == 1 else None


def object_list_case():
    me = dist.get_rank()
    given = ["two", {"objects": 2}]

    def call(group):
        out = [None, None]
        if me == 2:
            dist.send_object_list(given, dst=0, group=group)
        elif me == 0:
            assert dist.recv_object_list(out, src=2, group=group) == 2
        return out
    return call, given if me == 0 else [None, None]


def tags_case():
    """Rank 0 receives messages in a different order from that in which they were sent; larger than
    any ring."""
    me, size = dist.get_rank(), dist.get_world_size()
    count = 300000
    wanted = [torch.full((count,), 10. * rank + tag) for rank in range(1, size)
              for tag in (5, 0, 9, 5)]

    def call(group):
        if me != 0:
            sent = [dist.isend(torch.full((count,), 10. * me + tag), 0, group=group, tag=tag)
                    for tag in (9, 5, 5, 0)]
            for work in sent:
                work.wait()
            return None
        got = []
        for rank in range(1, size):
            for tag in (5, 0, 9, 5):
                got.append(torch.zeros(count))
                dist.recv(got[-1], rank, group=group, tag=tag)
        return got
    return call, wanted if me == 0 else None


def crossing_tags_case():
    """Both directions with one tag at the same time, receives posted first, waits only after
    that."""
    me, size = dist.get_rank(), dist.get_world_size()
    others = [rank for rank in range(size) if rank != me]

    def call(group):
        got = {(rank, tag): torch.zeros(3) for rank in others for tag in (1, 2)}
        works = [dist.irecv(x, rank, group=group, tag=tag) for (rank, tag), x in got.items()]
        works += [dist.isend(torch.full((3,), 10. * me + tag), rank, group=group, tag=tag)
                  for tag in (2, 1) for rank in others]
        for work in works:
            work.wait()
        return list(got.values())
    return call, [torch.full((3,), 10. * rank + tag) for rank in others for tag in (1, 2)]


def coalesced_gather_case():
    me, size = dist.get_rank(), dist.get_world_size()
    parts = [rows(torch.float32, 3), rows(torch.float32, 2, 2)]

    def call(group):
        out = [[torch.empty_like(part[0]) for part in parts] for _ in range(size)]
        dist.all_gather_coalesced(out, [part[me].clone() for part in parts], group=group)
        return [torch.stack(each) for each in zip(*out)]
    return call, parts


def coalesced_sum_case():
    me = dist.get_rank()
    parts = [rows(torch.float64, 3), rows(torch.float64, 2, 2)]

    def call(group):
        mine = [part[me].clone() for part in parts]
        dist.all_reduce_coalesced(mine, dist.ReduceOp.MAX, group=group)
        return mine
    return call, [part.amax(0) for part in parts]


def managed_case(what):
    """PyTorch's context manager that coalesces several calls."""
    me, size = dist.get_rank(), dist.get_world_size()
    gathered, scattered = rows(torch.int64, 5), rows(torch.int64, size, 2)

    def call(group):
        outs = [torch.zeros(2, dtype=torch.int64) for _ in range(2)]
        if what == "gather":
            outs = [torch.zeros(5 * size, dtype=torch.int64) for _ in range(2)]
        with dist._coalescing_manager(group=group):
            for n, out in enumerate(outs):
                if what == "gather":
                    dist.all_gather_into_tensor(out, gathered[me] + n, group=group)
                else:
                    dist.reduce_scatter_tensor(out, (scattered[me] + n).reshape(-1), group=group)
        return outs
    if what == "gather":
        return call, [(gathered + n).reshape(-1) for n in range(2)]
    return call, [(scattered[:, me] + n).sum(0) for n in range(2)]


def cases():
    for op in ("BAND", "BOR", "BXOR"):
        for dtype in INTEGERS:
            yield f"reduce {op} {dtype}", reduce_case(op, dtype)
            yield f"reduce_scatter {op} {dtype}", reduce_scatter_case(op, dtype)
    for op in ("SUM", "PRODUCT", "MIN", "MAX", "BAND", "BOR"):
        yield f"bool {op}", bool_case(op)
    yield "gather_object", gather_object_case()
    yield "tags", tags_case()
    yield "crossing tags", crossing_tags_case()
    yield "all_gather_coalesced", coalesced_gather_case()
    yield "all_reduce_coalesced", coalesced_sum_case()
    if not IS_OLD:
        yield "send_object_list", object_list_case()
        yield "managed all_gather", managed_case("gather")
        yield "managed reduce_scatter", managed_case("scatter")


def same(one, other):
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, torch.Tensor):
        return one.dtype == other.dtype and torch.equal(one, other)
    return one == other


def compare(gloo, ours):
    total, given = 0, 0
    for name, (call, wanted) in cases():
        result = call(ours)
        assert same(result, wanted), (name, result, wanted)
        total += 1
        try:
            of_gloo = call(gloo)
        except (RuntimeError, ValueError):  # rejected equally on all ranks, before anything is sent
            continue
        assert same(result, of_gloo), (name, result, of_gloo)
        given += 1
    assert given >= LEAST_OF_GLOO, given
    return f"gloo gave {given} of {total}"


def check_monitored(gloo, ours):
    me = dist.get_rank()
    dist.monitored_barrier(gloo, timedelta(seconds=60))
    for _ in range(3):
        ours.monitored_barrier(timedelta(seconds=60))
    for wait_all, absent in ((False, {1, 2}), (True, {1, 2}), (True, {0})):
        if me not in absent:
            try:
                ours.monitored_barrier(timedelta(seconds=0.3), wait_all_ranks=wait_all)
            except muster.TimedOut as error:
                assert error.rank == min(absent), error
                assert ("Ranks 1, 2" in str(error)) == (wait_all and 2 in absent), error
            else:
                raise AssertionError("nobody was missing")
        dist.barrier(gloo)
        if me in absent:  # they arrive when it is over, and get an error
            try:
                ours.monitored_barrier(timedelta(seconds=0.3), wait_all_ranks=wait_all)
            except muster.TimedOut as error:
                assert error.rank == (1 if absent == {0} else min(absent)), error
            else:
                raise AssertionError("it was over")
        dist.barrier(gloo)
    x = torch.ones(3)
    dist.all_reduce(x, group=ours)  # the group is unaffected
    assert x.sum() == 3 * dist.get_world_size()
    ours.monitored_barrier(timedelta(seconds=60))


def main():
    dist.init_process_group("gloo", timeout=timedelta(seconds=100))
    gloo, ours = dist.group.WORLD, dist.new_group(backend="muster")
    words = compare(gloo, ours)
    check_monitored(gloo, ours)
    os.write(1, f"rank {dist.get_rank()} of {dist.get_world_size()} is done, {words}\n".encode())
    dist.barrier(gloo)
    os._exit(0)  # gloo's threads: see examples/digits_ddp.py


if __name__ == "__main__":
    main()
