# SPDX-License-Identifier: Apache-2.0
"""One rank of gpu-check's arrays: passes GPU arrays from PyTorch, CuPy and JAX to the library
without copies, in the order of their streams. Prints a row of the table for each installed library.
If an operation runs before the preceding kernels, or a kernel before a preceding operation, sums
are wrong."""
import importlib
import os
import sys

COUNT, ROUNDS = 1 << 22, 12
RANK, SIZE = int(os.environ['RANK']), int(os.environ['WORLD_SIZE'])


def row(library, verdict, text):
    if RANK == 0:
        sys.stdout.write(f'{SIZE} rank(s): arrays of {library}\t{verdict}\t{text}\n')
        sys.stdout.flush()


def check_torch(comm, torch):
    """In place, on a side stream, with work before and after it for which the host does not
    wait."""
    side = torch.cuda.Stream()
    for stream in (torch.cuda.current_stream(), side):
        with torch.cuda.stream(stream):
            x = torch.ones(COUNT, device='cuda')
            for _ in range(ROUNDS):
                x = x * 2 - 1  # still all ones, but only after the kernels
            x = x * (RANK + 1)
            comm.all_reduce(x, async_op=True).wait()
            y = x + 1
        stream.synchronize()
        assert (y == SIZE * (SIZE + 1) / 2 + 1).all(), y[:4]
    for dtype in (torch.bfloat16, torch.float16, torch.int64, torch.float64):
        x = torch.full((3, 5), RANK + 1, device='cuda', dtype=dtype)
        out = torch.zeros(SIZE, 3, 5, device='cuda', dtype=dtype)
        comm.all_gather(x, out)
        assert out[:, 0, 0].tolist() == list(range(1, SIZE + 1)), (dtype, out)
    view = comm.alloc((4, 4), 'bf16', device=0)
    tensor = view.torch()
    assert tensor.dtype == torch.bfloat16 and tensor.data_ptr() == view.data
    tensor.fill_(RANK)
    comm.broadcast(tensor, SIZE - 1)
    assert (tensor == SIZE - 1).all(), tensor


def check_cupy(comm, cupy):
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        x = cupy.ones(COUNT, 'f4')
        for _ in range(ROUNDS):
            x = x * 2 - 1
        x *= RANK + 1
        comm.all_reduce(x, async_op=True).wait()
        y = x + 1
    stream.synchronize()
    assert bool((y == SIZE * (SIZE + 1) / 2 + 1).all()), y[:4]
    view = comm.alloc(1000, 'f64', device=0)
    array = cupy.from_dlpack(view)
    assert array.data.ptr == view.data
    array[:] = RANK
    comm.all_reduce(array, 'max')
    assert bool((array == SIZE - 1).all()), array[:4]


def check_jax(comm, jax):
    """Its arrays are never written. They are the input, and the result goes to an array of another
    library."""
    import muster
    x = jax.numpy.ones(COUNT, 'float32') * (RANK + 1)
    out = comm.alloc(COUNT, 'f32', device=0)
    comm.all_reduce(x, out=out)
    y = jax.numpy.from_dlpack(out)
    assert bool((y == SIZE * (SIZE + 1) / 2).all()), y[:4]
    assert bool((x == RANK + 1).all()), x[:4]
    try:
        comm.all_reduce(x)
    except muster.Error:
        return
    raise AssertionError('an array of JAX was written')


def check(comm, name, run):
    try:
        library = importlib.import_module(name)
    except ImportError:
        row(name, 'info', 'not here')
        return
    run(comm, library)
    row(name, 'ok', f'{library.__version__}: sums are right, and in the order of the streams')


def main():
    os.environ.setdefault('XLA_PYTHON_CLIENT_PREALLOCATE', 'false')  # several ranks share the GPU
    try:
        import torch
    except ImportError:
        torch = None
    if torch is None or not torch.cuda.is_available():
        row('torch', 'info', 'no PyTorch with CUDA')
        return
    import muster
    torch.cuda.set_device(0)
    # Serves the store through which the ranks meet.
    store = torch.distributed.TCPStore(os.environ['MASTER_ADDR'], int(os.environ['MASTER_PORT']),
                                       SIZE, RANK == 0)
    with muster.Communicator.from_env() as comm:
        check(comm, 'torch', check_torch)
        check(comm, 'cupy', check_cupy)
        check(comm, 'jax', check_jax)
        comm.barrier()
    del store


if __name__ == '__main__':
    main()
