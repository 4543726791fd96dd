# SPDX-License-Identifier: Apache-2.0
"""One rank of gpu-check's comparison: the same backward pass with torch DDP over NCCL and with
muster's GradientSync, in turns in one run. Prints a row of the table, also where it cannot run."""
import os
import statistics
import sys
import time

ROUNDS, STEPS, LAYERS, WIDTH, BATCH = 5, 5, 8, 1448, 2048
RANK, SIZE = int(os.environ['RANK']), int(os.environ['WORLD_SIZE'])


def row(words):
    if RANK == 0:
        sys.stdout.write(f'{SIZE} rank(s): GradientSync beside torch DDP\tinfo\t{words}\n')
        sys.stdout.flush()


def milliseconds(torch, step):
    torch.cuda.synchronize()
    begin = time.perf_counter()
    for _ in range(STEPS):
        step()
    torch.cuda.synchronize()
    return (time.perf_counter() - begin) * 1000 / STEPS


def compare(torch):
    import muster
    import muster.torch
    import torch.distributed as dist
    torch.cuda.set_device(0)
    dist.init_process_group('nccl')  # serves the store that we meet at, too
    comm = muster.Communicator.from_env()
    torch.manual_seed(1)
    layers = [torch.nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(LAYERS)]
    alone = torch.nn.Sequential(*layers).cuda()
    copies = [torch.nn.Sequential(*[torch.nn.Linear(WIDTH, WIDTH, bias=False)
                                    for _ in range(LAYERS)]).cuda() for _ in range(2)]
    for copy in copies:
        copy.load_state_dict(alone.state_dict())
    ddp = torch.nn.parallel.DistributedDataParallel(copies[0], device_ids=[0],
                                                    gradient_as_bucket_view=True)
    attached = muster.torch.attach(copies[1], comm)
    data = torch.randn(BATCH, WIDTH, device='cuda',
                       generator=torch.Generator('cuda').manual_seed(RANK))

    def step_alone():
        alone.zero_grad()
        alone(data).square().mean().backward()

    def step_ddp():
        ddp.zero_grad()
        ddp(data).square().mean().backward()

    def step_ours():
        attached.zero_grad()
        copies[1](data).square().mean().backward()
        attached.wait()

    ways = (step_alone, step_ddp, step_ours)
    for way in ways:
        way()
        way()
    for theirs, ours in zip(copies[0].parameters(), copies[1].parameters()):
        torch.testing.assert_close(theirs.grad, ours.grad, rtol=1e-3, atol=1e-6)
    times = [[milliseconds(torch, way) for way in ways] for _ in range(ROUNDS)]
    alone_ms, ddp_ms, ours_ms = (statistics.median(column) for column in zip(*times))
    ratio = statistics.median(ours / theirs for _, theirs, ours in times)
    row(f'a step {alone_ms:.2f} ms without sums, {ddp_ms:.2f} with DDP, {ours_ms:.2f} with ours: '
        f'{ratio:.2f} of DDP; equal gradients')
    attached.close()
    dist.destroy_process_group()


def main():
    try:
        import torch
    except ImportError:
        torch = None
    if torch is None or not torch.cuda.is_available():
        row('no PyTorch with CUDA')
        return
    compare(torch)


if __name__ == '__main__':
    main()
