# SPDX-License-Identifier: Apache-2.0
"""One rank of gpu-check's comparison: the same backward pass with torch DDP over NCCL and with
muster's GradientSync, alternating in one run. Prints a row of the table, even if it cannot run."""
import os
import statistics
import sys
import time

ROUNDS, STEPS, LAYERS, WIDTH, BATCH = 5, 5, 8, 1448, 2048
RANK, SIZE = int(os.environ['RANK']), int(os.environ['WORLD_SIZE'])


def row(text):
    if RANK == 0:
        sys.stdout.write(f'{SIZE} rank(s): GradientSync beside torch DDP\tinfo\t{text}\n')
        sys.stdout.flush()


def milliseconds(torch, step):
    torch.cuda.synchronize()
    begin = time.perf_counter()
    for _ in range(STEPS):
        step()
    torch.cuda.synchronize()
    return (time.perf_counter() - begin) * 1000 / STEPS


def model(torch, of=None):
    made = torch.nn.Sequential(*[torch.nn.Linear(WIDTH, WIDTH, bias=False)
                                 for _ in range(LAYERS)]).cuda()
    if of is not None:
        made.load_state_dict(of.state_dict())
    return made


def backward(made, data):
    made(data).square().mean().backward()


def steps(torch, comm, alone, wire):
    """(without sums, with DDP, with ours), one step each; and a function that closes ours. wire:
    gradients are sent as bf16, by DDP's own hook and by our option."""
    import muster.torch
    from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import bf16_compress_hook
    theirs, ours = model(torch, alone), model(torch, alone)
    ddp = torch.nn.parallel.DistributedDataParallel(theirs, device_ids=[0],
                                                    gradient_as_bucket_view=True)
    if wire:
        ddp.register_comm_hook(None, bf16_compress_hook)
    attached = muster.torch.attach(ours, comm, wire='bf16' if wire else None)
    data = torch.randn(BATCH, WIDTH, device='cuda',
                       generator=torch.Generator('cuda').manual_seed(RANK))

    def step_alone():
        alone.zero_grad()
        backward(alone, data)

    def step_ddp():
        ddp.zero_grad()
        backward(ddp, data)

    def step_ours():
        attached.zero_grad()
        backward(ours, data)
        attached.wait()

    def check():
        for a, b in zip(theirs.parameters(), ours.parameters()):
            torch.testing.assert_close(a.grad, b.grad, rtol=2e-2 if wire else 1e-3, atol=1e-6)
    return (step_alone, step_ddp, step_ours), check, attached.close


def compare(torch, comm, alone, wire):
    ways, check, close = steps(torch, comm, alone, wire)
    for way in ways:
        way()
        way()
    check()
    times = [[milliseconds(torch, way) for way in ways] for _ in range(ROUNDS)]
    alone_ms, ddp_ms, ours_ms = (statistics.median(column) for column in zip(*times))
    ratio = statistics.median(ours / theirs for _, theirs, ours in times)
    row(f'{"as bf16, " if wire else ""}a step {alone_ms:.2f} ms without sums, {ddp_ms:.2f} with '
        f'DDP, {ours_ms:.2f} with ours: {ratio:.2f} of DDP; equal gradients')
    close()


def compare_all(torch):
    import muster
    import torch.distributed as dist
    torch.cuda.set_device(0)
    dist.init_process_group('nccl')  # also serves the store through which we meet
    comm = muster.Communicator.from_env()
    torch.manual_seed(1)
    alone = model(torch)
    for wire in (False, True):
        compare(torch, comm, alone, wire)
    dist.destroy_process_group()


def main():
    try:
        import torch
    except ImportError:
        torch = None
    if torch is None or not torch.cuda.is_available():
        row('no PyTorch with CUDA')
        return
    compare_all(torch)


if __name__ == '__main__':
    main()
