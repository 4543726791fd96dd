# SPDX-License-Identifier: Apache-2.0
"""muster.torch.attach and plain operations on tensors on GPUs (simulated, see fake_gpu), one per
rank. Word: selects one of the functions below."""
import contextlib
import os
import sys

import torch
from torch import nn

import muster
import muster.torch
import fake_gpu
from fake_gpu import on_gpu
from muster_attach import refusal

STEPS = 6
SMALL = {"first_bucket": 64, "bucket_cap": 1024}


class Model(nn.Module):
    """With layers that are not used in the order in which they are listed."""

    def __init__(self):
        super().__init__()
        self.head = nn.Linear(16, 2)
        self.body = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 16))
        self.scale = nn.Parameter(torch.tensor(1.5))
        self.register_buffer("shift", torch.randn(16))

    def forward(self, x):
        return self.head(self.scale * self.body(x) + self.shift)


class Wide(Model):
    """With parameters that some ranks, or none, do not use."""

    def __init__(self):
        super().__init__()
        self.second = nn.Linear(16, 2)
        self.never = nn.Linear(3, 3)

    def forward(self, x, use_second=False):
        seen = super().forward(x)
        return seen + self.second(self.body(x)) if use_second else seen


def data(rank, step):
    generator = torch.Generator().manual_seed(1000 * rank + step)
    return torch.randn(6, 8, generator=generator)


def loss_of(model, x, *more):
    return model(x, *more).square().mean()


def model_of(kind, rank):
    torch.manual_seed(40 + rank)
    return kind()


class Plain:
    """The same training on the host, for all ranks at once: means of the ranks' own gradients."""

    def __init__(self, kind, ranks):
        self.model, self.ranks = model_of(kind, 0), ranks
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)

    def step(self, parts):
        """parts: for each rank, a list of inputs for its losses. Returns the gradients by name."""
        sums = {}
        for losses in parts:
            self.model.zero_grad()
            for inputs in losses:
                loss_of(self.model, *inputs).backward()
            for name, p in self.model.named_parameters():
                if p.grad is not None:
                    sums[name] = sums.get(name, 0) + p.grad
        for name, p in self.model.named_parameters():
            p.grad = sums[name] / self.ranks if name in sums else None
        self.optimizer.step()
        return {name: p.grad for name, p in self.model.named_parameters() if p.grad is not None}


def assert_near(got, wanted, where, near=1e-5):
    assert list(got) == list(wanted), (where, list(got), list(wanted))
    for name, value in got.items():
        torch.testing.assert_close(value.cpu(), wanted[name], rtol=near, atol=near / 10,
                                   msg=lambda text: f"{where}, {name}: {text}")


def assert_same_everywhere(comm, tensors):
    for tensor in tensors:
        for each in comm.all_gather(tensor.contiguous()).cpu():
            assert torch.equal(each, tensor.cpu())


def are_in_buckets(attached, parameters):
    return all(p.grad.data_ptr() == attached.sync.grad(id).data
               for id, p in enumerate(parameters) if p.grad is not None)


def gradients(model):
    """Copies made by the GPU on torch's current stream; the host does not wait."""
    return {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}


def write_go():
    """Rank 0 lets rank 1 continue, through the test's pipe."""
    with open(os.path.join(os.environ["TMPDIR"], "go"), "w") as pipe:
        pipe.write("go")


def read_go():
    with open(os.path.join(os.environ["TMPDIR"], "go")) as pipe:
        assert pipe.read() == "go"


@contextlib.contextmanager
def on(stream, after):
    """Work on a stream, ordered after the work queued so far on another one."""
    if stream is after:
        yield
        return
    stream.wait_stream(after)
    with fake_gpu.stream(stream), fake_gpu.current_device(0):  # torch's device may differ
        yield


def run_steps(comm, model, attached, *, backward_on, wait_on, inputs, uses):
    """The gradients after each step. Steps differ in which function zeroes them; one has two
    parts."""
    own = fake_gpu.current_stream(comm.rank)
    parameters = list(model.parameters())
    optimizer = torch.optim.SGD(parameters, lr=0.1)
    seen, stats = [], []
    for step in range(STEPS):
        with on(backward_on, own):
            if step == 2:
                with attached.accumulate():
                    loss_of(model, inputs[STEPS], *uses(comm.rank, step)).backward()
            loss_of(model, inputs[step], *uses(comm.rank, step)).backward()
        with on(wait_on, own):
            stats.append(attached.wait())
            seen.append(gradients(model))
        own.wait_stream(wait_on)
        own.wait_stream(backward_on)
        assert are_in_buckets(attached, parameters), step
        optimizer.step()
        (attached.zero_grad if step % 2 else optimizer.zero_grad)()
    assert stats[0].moved and stats[1].buckets > 3, stats
    assert not any(each.moved for each in stats[1:]), stats
    return seen


def train(comm, kind=Model, uses=lambda rank, step: (), side_backward=False, side_wait=False,
          near=1e-5, **options):
    """STEPS steps equal those of the reference, and are the same on all ranks. Returns the
    gradients."""
    device = comm.rank
    own = fake_gpu.current_stream(device)
    model = fake_gpu.move(model_of(kind, comm.rank), device)
    attached = muster.torch.attach(model, comm, **SMALL, **options)
    reference = Plain(kind, comm.size)
    assert_near(dict(model.state_dict()), reference.model.state_dict(), "at the start")
    inputs = [on_gpu(data(comm.rank, step), device) for step in range(STEPS + 1)]
    seen = run_steps(comm, model, attached, inputs=inputs, uses=uses,
                     backward_on=fake_gpu.Stream(device) if side_backward else own,
                     wait_on=fake_gpu.Stream(device) if side_wait else own)
    for step, got in enumerate(seen):
        parts = [[(data(rank, each), *uses(rank, step))
                  for each in ((STEPS, step) if step == 2 else (step,))]
                 for rank in range(comm.size)]
        assert_near(got, reference.step(parts), f"step {step}", near)
        assert_same_everywhere(comm, got.values())
    assert_same_everywhere(comm, model.parameters())
    let_go(comm, model, attached, inputs[0])
    return seen


def let_go(comm, model, attached, x):
    """After close() gradients keep their values, and are those of this rank alone."""
    loss_of(model, x).backward()
    attached.wait()
    mine = {name: value.cpu() for name, value in gradients(model).items()}
    attached.close()
    attached.close()
    assert_near(gradients(model), mine, "after close")
    loss_of(model, x).backward()
    assert not torch.equal(model.scale.grad.cpu(), mine["scale"])
    each = comm.all_gather(model.scale.grad).cpu()
    assert not torch.equal(each[0], each[1]), each


def training(comm):
    train(comm)


def side(comm):
    """torch's current stream is a different one in backward(), in wait(), or in both."""
    train(comm, side_backward=True, side_wait=True)
    train(comm, side_backward=True)
    train(comm, side_wait=True)


def unused(comm):
    def uses(rank, step):
        return (step % 3 == 1 and rank == 0,)
    train(comm, Wide, uses, has_unused=True)
    train(comm, Wide, uses, has_unused=True, side_backward=True)


def wire(comm):
    """Gradients that are sent as bf16 are close to those in f32, and the same on all ranks."""
    for step in train(comm, wire="bf16", near=0.02):
        for value in step.values():
            assert torch.equal(value.cpu(), value.cpu().bfloat16().float())


def parts(comm):
    """Two losses in one step on two streams, waited for on a third."""
    device = comm.rank
    own = fake_gpu.current_stream(device)
    model = fake_gpu.move(nn.ModuleList(model_of(Model, 0) for _ in range(2)), device)
    attached = muster.torch.attach(model, comm, **SMALL)
    reference = Plain(Model, comm.size).step([[(data(rank, 0),)] for rank in range(comm.size)])
    streams = [fake_gpu.Stream(device) for _ in model]
    x = on_gpu(data(comm.rank, 0), device)
    for _ in range(3):
        for part, stream in zip(model, streams):
            with on(stream, own):
                loss_of(part, x).backward()
        attached.wait()
        for part in model:
            assert_near(gradients(part), reference, "a part")
        for stream in streams:
            own.wait_stream(stream)
        attached.zero_grad()
    attached.close()


def ahead(comm):
    """wait() does not block the host: rank 1 starts after rank 0 has queued the kernels that read
    the sums. The fake driver checks that these reads come after the sums."""
    device = comm.rank
    model = fake_gpu.move(nn.Linear(8, 2), device)
    attached = muster.torch.attach(model, comm, reorder=False)
    x = on_gpu(data(comm.rank, 0), device)
    for side in (fake_gpu.current_stream(device), fake_gpu.Stream(device)):
        with on(side, fake_gpu.current_stream(device)):
            if comm.rank == 1:
                read_go()
            loss_of(model, x).backward()
            attached.wait()
            if comm.rank == 0:
                side.launch("the reading", [(p.grad, False) for p in model.parameters()])
                write_go()
            assert_same_everywhere(comm, [p.grad for p in model.parameters()])
            attached.zero_grad()
        fake_gpu.current_stream(device).wait_stream(side)
    attached.close()


def plain(comm):
    """Operations on tensors, ordered after torch's current stream and before the kernels that read
    the result."""
    device = comm.rank
    sums = comm.size * (comm.size + 1) // 2
    for stream in (fake_gpu.current_stream(device), fake_gpu.Stream(device)):
        for dtype in (torch.float32, torch.bfloat16, torch.int64):
            x = on_gpu(torch.full((3, 4), comm.rank + 1, dtype=dtype), device)
            with on(stream, fake_gpu.current_stream(device)):
                x.mul_(2)
                comm.all_reduce(x)
                assert torch.equal(x.cpu(), torch.full((3, 4), 2 * sums, dtype=dtype)), x.cpu()
                x.fill_(comm.rank + 1)
                work = comm.all_reduce(x, async_op=True)
                work.wait_stream(stream)
                x.mul_(3)
                assert torch.equal(x.cpu(), torch.full((3, 4), 3 * sums, dtype=dtype)), x.cpu()
                x.fill_(comm.rank)
                everybodys = comm.all_gather(x)
                assert (type(everybodys), everybodys.device) == (type(x), x.device)
                assert everybodys.cpu()[:, 0, 0].tolist() == list(range(comm.size))
                comm.broadcast(x, root=1)
                assert (x.cpu() == 1).all()
                text = refusal(muster.InvalidArgument, lambda: comm.all_reduce(x.t()))
                assert "not contiguous" in text, text


def failure(comm):
    """After an abort training continues with another communicator. Rank 1 aborts before the others
    start their step, and later while the operations of their step are in progress."""
    for number, is_under_way in enumerate((False, True)):
        first = comm.rebuild(comm.rank, comm.size, comm.epoch + 1 + 2 * number)
        side = fake_gpu.Stream(comm.rank)
        with on(side, fake_gpu.current_stream(comm.rank)):
            go_on_after_failure(first, is_under_way)


def go_on_after_failure(comm, is_under_way):
    model = fake_gpu.move(model_of(Model, 0), comm.rank)
    attached = muster.torch.attach(model, comm, **SMALL)
    reference = Plain(Model, comm.size).step([[(data(rank, 0),)] for rank in range(comm.size)])
    x = on_gpu(data(comm.rank, 0), comm.rank)

    def step():
        loss_of(model, x).backward()
        attached.wait()
    step()
    attached.zero_grad()
    if comm.rank == 1:
        if is_under_way:
            read_go()
        comm.abort("enough")
    elif is_under_way:
        step()
        write_go()
    assert "enough" in refusal(muster.Aborted, comm.barrier)
    if comm.rank != 1 and not is_under_way:
        assert "enough" in refusal(muster.Aborted, step)
    again = comm.rebuild(comm.rank, comm.size, comm.epoch + 1)
    for p in model.parameters():
        p.grad.mul_(0.5)  # still to be done, or not, when rebind() begins
    attached.rebind(again, broadcast=is_under_way)
    comm.close()
    assert are_in_buckets(attached, list(model.parameters()))
    for _ in range(2):
        attached.zero_grad()
        step()
        assert_near(gradients(model), reference, "a step")
    attached.close()
    again.close()


def mistakes(comm):
    model = nn.ModuleDict({"a": fake_gpu.move(nn.Linear(2, 2), 0),
                           "b": fake_gpu.move(nn.Linear(2, 2), 1)})
    text = refusal(muster.Unsupported, lambda: muster.torch.attach(model, comm))
    assert "'a.weight' is on cuda:0 and 'b.weight' on cuda:1" in text, text


def main():
    comm = muster.Communicator.from_env()
    for name in sys.argv[1:]:
        globals()[name](comm)
        comm.barrier()
    os.write(1, f"rank {comm.rank} of {comm.size}: {' '.join(sys.argv[1:])} are as they should be\n"
             .encode())
    os._exit(0)  # no finalizers, because the fake driver's threads are still running


if __name__ == "__main__":
    main()
