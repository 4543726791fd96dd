# SPDX-License-Identifier: Apache-2.0
"""Lets muster request a dump of PyTorch's flight recorder for gloo groups from a hanging process.
PyTorch has no external interface for gloo's recorder (for NCCL's recorder, PyTorch runs a thread
that serves requests). muster sets MUSTER_TORCH_FLIGHTS for workers with --hang-timeout. Without
this variable, or before the process creates a process group, nothing happens. A thread reads the
named pipe <value><pid>.pipe. For each byte that it reads, it writes a dump to <value><pid>, which
lib/hang/torch_dump reads.

This is a separate module that imports almost nothing, because every Python process of such a job
runs install()."""
import os

VARIABLE = "MUSTER_TORCH_FLIGHTS"
_MODULE = "torch.distributed.distributed_c10d"


def install():
    """Starts listening for dump requests as soon as the program creates a process group."""
    if not os.environ.get(VARIABLE):
        return
    from muster_on_import import when_imported
    when_imported(_MODULE, watch)


def watch(c10d):
    """c10d: PyTorch's module distributed_c10d. A second call does nothing."""
    make = c10d.init_process_group
    if hasattr(make, "_muster_listens"):
        return

    import functools

    @functools.wraps(make)
    def init_process_group(*args, **options):
        listen()
        return make(*args, **options)
    init_process_group._muster_listens = True
    c10d.init_process_group = init_process_group


def listen():
    """Starts the thread. False if this PyTorch has no recorder, or the pipe cannot be created."""
    import threading
    from torch._C import _distributed_c10d as native
    dump = getattr(native, "_dump_fr_trace", None)  # earlier versions do not record gloo
    path = f"{os.environ.get(VARIABLE, '')}{os.getpid()}"
    try:
        if dump is None or os.path.exists(path + ".pipe"):
            return False
        os.mkfifo(path + ".pipe", 0o600)
        pipe = os.open(path + ".pipe", os.O_RDWR)  # also for writing, so that read() never sees EOF
    except OSError:
        return False
    threading.Thread(target=_serve, args=(pipe, path, dump), name="muster-flights",
                     daemon=True).start()
    return True


def _serve(pipe, path, dump):
    while os.read(pipe, 64):
        try:
            with open(path, "wb") as file:
                # Do not dump stacks: they need the GIL, and muster gets them in other ways.
                file.write(dump(True, False, False))
        except (OSError, RuntimeError, TypeError):  # muster then reports that the dump is missing
            pass
