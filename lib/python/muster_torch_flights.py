# SPDX-License-Identifier: Apache-2.0
"""Lets muster ask a process that hangs for PyTorch's flight recorder of its gloo groups, for which
PyTorch itself has no way from outside (NCCL's thread has one). muster sets MUSTER_TORCH_FLIGHTS
for workers with --hang-timeout; without it nothing of this happens, nor before the process makes a
process group. A thread waits at the named pipe <value><pid>.pipe; for each byte in it a dump is
written to <value><pid>, which lib/hang/gather/torch_dump reads.

A module of its own, which imports next to nothing: each Python of such a job runs install()."""
import os
import sys

VARIABLE = "MUSTER_TORCH_FLIGHTS"
_MODULE = "torch.distributed.distributed_c10d"


def install():
    """Listens as soon as the program makes a process group."""
    if not os.environ.get(VARIABLE):
        return
    loaded = sys.modules.get(_MODULE)
    if loaded is not None:
        watch(loaded)
    else:
        sys.meta_path.insert(0, _Finder())


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
    """Whether a thread listens from now on; not where there is nothing to ask, or no place."""
    import threading
    from torch._C import _distributed_c10d as native
    dump = getattr(native, "_dump_fr_trace", None)  # earlier versions record nothing of gloo
    path = f"{os.environ.get(VARIABLE, '')}{os.getpid()}"
    try:
        if dump is None or os.path.exists(path + ".pipe"):
            return False
        os.mkfifo(path + ".pipe", 0o600)
        pipe = os.open(path + ".pipe", os.O_RDWR)  # to write as well: so there is never an end
    except OSError:
        return False
    threading.Thread(target=_serve, args=(pipe, path, dump), name="muster-flights",
                     daemon=True).start()
    return True


def _serve(pipe, path, dump):
    while os.read(pipe, 64):
        try:
            with open(path, "wb") as file:
                # Without stacks, which need Python and are known from elsewhere.
                file.write(dump(True, False, False))
        except (OSError, RuntimeError, TypeError):  # nobody to tell: muster says who is silent
            pass


class _Finder:
    """Finds one module as the others do, and has watch() called when it is loaded."""

    def find_spec(self, name, path, target=None):
        if name != _MODULE:
            return None
        import importlib.util
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        loader = spec.loader if spec is not None else None
        if loader is not None:
            load = loader.exec_module

            def exec_module(module):
                load(module)
                watch(module)
            loader.exec_module = exec_module
        return spec
