# SPDX-License-Identifier: Apache-2.0
"""What works over gloo works over "muster": each case is called with a gloo group and with a muster
group in the same processes, and must give the same result. Words: the cases; none for all."""
import os
import sys
import traceback
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks import powerSGD_hook
from torch.nn.parallel import DistributedDataParallel

import muster.torch  # registers the backend

IS_OLD = int(torch.__version__.split(".")[0]) < 2
SOON = timedelta(seconds=60)
C10D = torch._C._distributed_c10d


def me():
    return dist.get_rank()


def size():
    return dist.get_world_size()


def refusal(call):
    """The error of a rejected call."""
    try:
        call()
    except (RuntimeError, ValueError) as error:
        return str(error)
    return "not refused"


def options(kind, **values):
    made = getattr(C10D, kind + "Options")()
    for name, value in values.items():
        setattr(made, name, value)
    return made


# The ways to call a group's methods.


def overloads(group):
    tensors = [torch.full((3,), float(me())) for _ in range(9)]
    a, b, c, d, e, f, g, h, i = tensors
    group.allreduce(a).wait()
    group.allreduce([b], dist.ReduceOp.MAX).wait()
    group.allreduce(c, op=dist.ReduceOp.MIN).wait()
    group.broadcast(d, root=1).wait()
    group.broadcast(e, 2).wait()
    group.reduce(f, 0).wait()
    group.reduce(g, root=1, op=dist.ReduceOp.PRODUCT).wait()
    group.barrier().wait()
    if not IS_OLD:
        group.barrier(timeout=SOON).wait()
        group.allreduce(h, dist.ReduceOp.SUM, SOON).wait()
        group.broadcast(i, 1, timeout=SOON).wait()
    out = [torch.zeros(3) for _ in range(size())]
    group.allgather(out, torch.full((3,), float(me()))).wait()
    part = torch.zeros(1)
    if not IS_OLD:
        group.reduce_scatter(part, list(torch.arange(3.).split(1))).wait()
    got = torch.zeros(1)
    gathered = [torch.zeros(1) for _ in range(size())] if me() == 2 else []
    if not IS_OLD:  # otherwise all ranks would have to pass lists
        group.scatter(got, list(torch.arange(3.).split(1)) if me() == 0 else [], 0).wait()
        group.gather(gathered, torch.full((1,), float(me())), 2).wait()
    results = [*tensors, *out, part, got, *gathered]
    for root, of in ((0, 5), (1, 6)):
        if me() != root:
            results[of] = None  # only the root's result is specified
    return results


def refusals(group):
    """Words in gloo's error, and in ours."""
    x, y, z = torch.zeros(1), torch.zeros(1, dtype=torch.float64), torch.zeros(2)
    n, other = size(), (me() + 1) % size()
    said = [
        ("invalid root rank: -1",
         lambda: group.broadcast([x], options("Broadcast", rootRank=-1))),
        (f"invalid root rank: {n}",
         lambda: group.broadcast([x], options("Broadcast", rootRank=n))),
        ("invalid root tensor: 1",
         lambda: group.broadcast([x], options("Broadcast", rootTensor=1))),
        ("invalid root rank: -1", lambda: group.reduce([x], options("Reduce", rootRank=-1))),
        ("requires a single-element tensor list",
         lambda: group.reduce([x, x], options("Reduce", rootRank=0))),
        ("invalid root rank: -1", lambda: group.gather([], [x], options("Gather", rootRank=-1))),
        ("requires a single-element input tensor list",
         lambda: group.gather([], [x, x], options("Gather", rootRank=0))),
        ("requires a single-element output list",
         lambda: group.gather([], [x], options("Gather", rootRank=me()))),
        (f"Incorrect output list size {n - 1}",
         lambda: group.gather([[x] * (n - 1)], [x], options("Gather", rootRank=me()))),
        ("invalid tensor type at index 0",
         lambda: group.gather([[y] * n], [x], options("Gather", rootRank=me()))),
        ("requires empty output on non-root",
         lambda: group.gather([[x] * n], [x], options("Gather", rootRank=other))),
        ("invalid root rank", lambda: group.scatter([x], [], options("Scatter", rootRank=n))),
        ("requires a single-element output tensor list",
         lambda: group.scatter([x, x], [], options("Scatter", rootRank=me()))),
        (f"Incorrect input list size {n + 1}",
         lambda: group.scatter([x], [[x] * (n + 1)], options("Scatter", rootRank=me()))),
        ("invalid tensor size at index 0",
         lambda: group.scatter([x], [[z] * n], options("Scatter", rootRank=me()))),
        ("requires empty input on non-root",
         lambda: group.scatter([x], [[x] * n], options("Scatter", rootRank=other))),
        ("requires input/output tensor lists to have the same length",
         lambda: group.allgather([[x] * n] * 2, [x])),
        ("invalid output tensor list at index 0", lambda: group.allgather([[x]], [x])),
        ("invalid tensor type at index 0", lambda: group.allgather([[y] * n], [x])),
        ("invalid tensor size at index 0", lambda: group.allgather([[z] * n], [x])),
        ("tensors must all have the same type", lambda: group.allreduce_coalesced([x, y])),
        ("invalid root tensor: 2",
         lambda: group.broadcast([x, x], options("Broadcast", rootTensor=2))),
        ("invalid tensor type at index", lambda: group.broadcast([x, y], options("Broadcast"))),
        ("invalid tensor size at index", lambda: group.broadcast([x, z], options("Broadcast"))),
        ("invalid tensor type at index 1", lambda: group.allgather([[x] * 2 * n] * 2, [x, y])),
        ("invalid tensor size at index 1", lambda: group.allgather([[x] * 2 * n] * 2, [x, z])),
        ("invalid output tensor list at index 1",
         lambda: group.allgather([[x] * 2 * n, [x] * n], [x, x])),
    ]
    if not IS_OLD:
        said += [
            ("non-empty", lambda: group.allreduce_coalesced([])),
            ("non-empty", lambda: group.allreduce([])),
            ("Split sizes doesn't match total dim 0 size",
             lambda: group.alltoall_base(torch.zeros(n), torch.zeros(n), [2] * n, [1] * n)),
            ("does not divide equally across group size",
             lambda: group.alltoall_base(torch.zeros(n + 1), torch.zeros(n + 1), [], [])),
            ("Tensors must be contiguous",
             lambda: group.alltoall_base(torch.zeros(n, n), torch.zeros(n, n).t(), [], [])),
            ("invalid size of output tensor at index 0",
             lambda: dist.all_gather_coalesced([[z]] * n, [x], group)),
            ("output lists should be equal to world size",
             lambda: dist.all_gather_coalesced([[x]] * (n + 1), [x], group)),
            ("unsupported reduction operation",
             lambda: group.allreduce([sparse_of(2.)],
                                     options("Allreduce", reduceOp=dist.ReduceOp.MAX))),
        ]
    return [words if words in refusal(call) else refusal(call) for words, call in said]


# Data.


def uneven(group):
    whole = [torch.full((rank + 1,), me() + rank * 10.) for rank in range(size())]
    mine = torch.zeros(me() + 1)
    dist.reduce_scatter(mine, whole, group=group)
    return mine


def complex_numbers(group):
    part = torch.zeros(2, dtype=torch.complex64)
    whole = torch.complex(torch.arange(2. * size()), torch.full((2 * size(),), float(me())))
    dist.reduce_scatter_tensor(part, whole, group=group)
    swapped = torch.zeros(size(), dtype=torch.complex64)
    dist.all_to_all_single(swapped, whole[:size()].clone(), group=group)
    return [part, swapped]


def sparse_of(value):
    return torch.sparse_coo_tensor([[me()]], [value], (size(),))


def sparse(group):
    results = []
    for values in ([1.], [2], [3., 4.]):
        mine = [sparse_of(value) for value in values]
        group.allreduce(mine).wait()
        results += [each.to_dense() for each in mine]
    return results


def several_inputs(group):
    """One call with several inputs, also if it has a future."""
    sent = [torch.full((2,), me() * 10. + n) for n in range(2)]
    group.broadcast(sent, options("Broadcast", rootRank=1, rootTensor=1)).wait()
    gathered = [[torch.zeros(3) for _ in range(2 * size())] for _ in range(2)]
    work = group.allgather(gathered, [torch.full((3,), me() * 10. + n) for n in range(2)])
    work.get_future().wait()
    return [*sent, *gathered]


def inference(group):
    """Threads of the backend write to tensors that were created in inference mode."""
    with torch.inference_mode():
        rows = [torch.zeros(2) for _ in range(size())]
        work = dist.all_gather(rows, torch.full((2,), float(me())), group=group, async_op=True)
        work.get_future().wait()
    return [row.clone() for row in rows]


# Messages.


def any_source(group):
    """Rank 0 receives from any sender; with and without tags, waiting immediately and later."""
    if me() != 0:
        for work in [dist.isend(torch.full((4,), me() * 10. + tag), 0, group=group, tag=tag)
                     for tag in (0, 7, 0)]:
            work.wait()
        return None
    seen = []
    for tag in (7, 0, 0):
        works = [(dist.irecv(x, group=group, tag=tag), x)
                 for x in [torch.zeros(4) for _ in range(size() - 1)]]
        for work, x in works:
            work.wait()
            seen.append((tag, work._source_rank(), x[0].item()))
    return sorted(seen)


def several(group):
    """A list of tensors, each of which counts like another rank's tensor."""
    seen = []
    for op in ("SUM", "PRODUCT", "MIN", "MAX", "BXOR"):
        tensors = [torch.tensor([me() + n, 2 - n]) for n in range(3)]
        opts = options("Allreduce", reduceOp=getattr(dist.ReduceOp, op))
        group.allreduce(tensors, opts).wait()
        seen += tensors
    work = group.allreduce([torch.ones(2), torch.full((2,), 3.)])
    work.wait()
    return [*seen, *work.result(),
            "invalid tensor size" in refusal(
                lambda: group.allreduce([torch.ones(2), torch.ones(3)]).wait()),
            "invalid tensor type" in refusal(
                lambda: group.allreduce([torch.ones(2), torch.ones(2).long()]).wait())]


def early_receive_from_any(group):
    """Others send after the receive has waited for a while, in the middle of other operations."""
    x = torch.zeros(100000)
    work = dist.irecv(x, group=group) if me() == 0 else None
    total = torch.ones(1)
    dist.all_reduce(total, group=group)
    if me() == 1:
        dist.send(torch.full((100000,), 5.), 0, group=group)
    dist.all_reduce(total, group=group)
    if work is not None:
        work.wait()
    return [x.sum(), total]


def objects_from_any(group):
    if me() != 0:
        dist.send(torch.tensor([me()]), 0, group=group)
        dist.send_object_list([me(), "x" * 100 * me()], dst=0, group=group)
        return None
    seen = []
    for _ in range(size() - 1):
        got = [None, None]
        x = torch.zeros(1, dtype=torch.int64)
        sender = dist.recv(x, group=group)
        assert x.item() == sender, (x, sender)
        assert dist.recv_object_list(got, src=sender, group=group) == sender
        seen.append(got)
    return sorted(seen)


def hundreds_of_tags(group):
    """Received in a different order from that in which they were sent."""
    tags = range(1, 301)
    if me() == 1:
        sent = [dist.isend(torch.full((2,), float(tag)), 0, group=group, tag=tag) for tag in tags]
        for work in sent:
            work.wait()
    if me() != 0:
        return None
    got = {tag: torch.zeros(2) for tag in reversed(tags)}
    for work in [dist.irecv(x, 1, group=group, tag=tag) for tag, x in got.items()]:
        work.wait()
    return list(got.values())


# Futures.


def waiting_callbacks(group):
    """A callback waits for an operation that it starts, and for one that was started after its own.
    On ranks 0 and 1 it is added before the operation has completed."""
    def started():
        first, later = (dist.all_reduce(torch.full((2,), n), group=group, async_op=True)
                        .get_future() for n in (1., 5.))

        def callback(future):
            inner = dist.all_reduce(future.value()[0] * 2, group=group, async_op=True)
            return inner.get_future().wait()[0] + later.wait()[0]
        return first.then(callback)
    if me() == 2:
        dist.barrier()
        chained = started()
    else:
        chained = started()
        dist.barrier()
    return chained.wait()


def finished_by_barrier(group):
    """Results that have to be copied are available after a barrier, without waiting for their
    Work."""
    x = torch.arange(6.).reshape(2, 3).t()
    work = dist.all_reduce(x, group=group, async_op=True)
    dist.barrier(group=group)
    del work
    return x.clone()


# Features that PyTorch builds on groups.


def model():
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(40, 60), nn.ReLU(), nn.Linear(60, 4))


def steps(module, count=3):
    generator = torch.Generator().manual_seed(me())
    for _ in range(count):
        module(torch.randn(8, 40, generator=generator)).square().mean().backward()


def gradients(module):
    return [p.grad.clone() for p in module.parameters()]


def power_sgd(group):
    ddp = DistributedDataParallel(model(), process_group=group)
    state = powerSGD_hook.PowerSGDState(process_group=group, matrix_approximation_rank=1,
                                        start_powerSGD_iter=2)
    ddp.register_comm_hook(state, powerSGD_hook.powerSGD_hook)
    steps(ddp)
    return gradients(ddp)


def joined(group):
    """Ranks have different numbers of steps; means are over the ranks that still have some."""
    ddp = DistributedDataParallel(model(), process_group=group, find_unused_parameters=True)
    with ddp.join(divide_by_initial_world_size=False):
        steps(ddp, 2 + me())
    return gradients(ddp)


def compiled(group):
    torch._dynamo.reset()
    ddp = torch.compile(DistributedDataParallel(model(), process_group=group), backend="eager")
    steps(ddp)
    x = torch.ones(3)

    @torch.compile(backend="eager")
    def summed(x):
        dist.all_reduce(x, group=group)
        return x * 2
    return [*gradients(ddp), summed(x)]


def checkpoints(group):
    import tempfile
    import torch.distributed.checkpoint as dcp
    from torch.distributed.checkpoint.state_dict import StateDictOptions, set_model_state_dict
    folder = [tempfile.mkdtemp(dir=os.environ["TMPDIR"]) if me() == 0 else None]
    dist.broadcast_object_list(folder, 0, group=group)
    state = {"x": torch.full((4,), float(me()))}
    dcp.async_save(state, checkpoint_id=folder[0], process_group=group).result()
    read = {"x": torch.zeros(4)}
    dcp.load(read, checkpoint_id=folder[0], process_group=group)
    loaded = model()
    given = model().state_dict() if me() == 0 else {}
    set_model_state_dict(loaded, {name: value + 1 for name, value in given.items()},
                         options=StateDictOptions(full_state_dict=True,
                                                  broadcast_from_rank0=True))
    return [read["x"], *loaded.state_dict().values()]


def introspection(group):
    c10d = dist.distributed_c10d
    return ["cpu" in c10d._device_capability(group), c10d._get_object_coll_device(group),
            torch.device("cpu") in group._device_types, group.rank(), group.size(),
            dist.get_process_group_ranks(group), group.group_desc, group.bound_device_id]


def split(group):
    part = dist.split_group(group, [[0, 2], [1]], group_desc="halves")
    x = torch.full((2,), me() + 1.)
    dist.all_reduce(x, group=part)
    described = [part.size(), part.rank(), part.group_desc, dist.get_process_group_ranks(part)]
    dist.destroy_process_group(part)
    return [x, described]


def monitored(group):
    group = dist.new_group(backend=dist.get_backend(group), timeout=SOON)  # breaks gloo's
    dist.monitored_barrier(group, SOON)
    said = None
    if me() == 0:
        text = refusal(lambda: dist.monitored_barrier(group, timedelta(seconds=0.2),
                                                      wait_all_ranks=True))
        said = "Ranks 1, 2 failed to pass monitoredBarrier" in text
    return said


def one_rank_is_late(group):
    """The error contains words that programs look for. The group is unusable afterwards, so creates
    one only for this."""
    group = dist.new_group(backend=dist.get_backend(group), timeout=SOON)
    text = refusal(lambda: dist.barrier(group, timeout=timedelta(seconds=0.2))) if me() == 0 else ""
    return "Timed out" in text


def ranges(group):
    """Names and shapes of profiler ranges, which may end in another thread."""
    with torch.autograd.profiler.profile(record_shapes=True) as profile:
        dist.all_reduce(torch.ones(2, 3), group=group)
        dist.all_reduce(torch.ones(4), group=group, async_op=True).wait()
        dist.broadcast(torch.ones(5), 0, group=group)
        dist.barrier(group=group)
        dist.all_gather_coalesced([[torch.ones(2), torch.ones(3)] for _ in range(size())],
                                  [torch.ones(2), torch.ones(3)], group=group)
        if me() == 0:
            dist.send(torch.ones(6), 1, group=group)
        elif me() == 1:
            dist.recv(torch.ones(6), group=group)
    label = "gloo" if dist.get_backend(group) == "gloo" else "muster"
    seen = [event for event in profile.function_events if event.name.startswith(label + ":")]
    return sorted((event.name.partition(":")[2], event.is_async,
                   event.input_shapes if "barrier" not in event.name else []) for event in seen)


OLD = [overloads, refusals, several_inputs, waiting_callbacks, finished_by_barrier,
       hundreds_of_tags, any_source, early_receive_from_any, power_sgd, joined]
NEW = [several, uneven, complex_numbers, sparse, inference, objects_from_any, introspection, split,
       ranges, compiled, checkpoints, monitored, one_rank_is_late]
CASES = {case.__name__: case for case in (OLD if IS_OLD else OLD + NEW)}


def same(one, other):
    if type(one) is not type(other):
        return False
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, torch.Tensor):
        return one.dtype == other.dtype and torch.allclose(one, other, rtol=1e-4, atol=1e-6)
    return one == other


def run(case, group):
    try:
        return case(group)
    except Exception:
        return traceback.format_exc()


def main(cases):
    dist.init_process_group("gloo", timeout=timedelta(seconds=100))
    groups = [dist.new_group(backend=name, timeout=timedelta(seconds=40))
              for name in ("gloo", "muster")]
    for name in sys.argv[1:] or cases:
        of_gloo, ours = (run(cases[name], group) for group in groups)
        is_same = same(of_gloo, ours) and not isinstance(of_gloo, str)
        os.write(1, (f"{name}: as gloo\n" if is_same else
                     f"{name}: gloo gives {of_gloo}\n{name}: muster gives {ours}\n").encode())
        dist.barrier()
    os.write(1, f"rank {me()} has no more cases\n".encode())
    dist.barrier()
    os._exit(0)  # gloo's threads: see examples/digits_ddp.py


if __name__ == "__main__":
    main(CASES)
