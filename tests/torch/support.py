# SPDX-License-Identifier: Apache-2.0
"""Code shared by the PyTorch tests: programs under test, servers, events with a deadline.

MUSTER_PROGRAMS lists the programs. With MUSTER_TORCH_SERVER=torch, the store tests use PyTorch's
own TCPStore instead of muster-store. They must pass with it as well, which shows that they test
PyTorch's behaviour.
"""
import contextlib
import os
import subprocess
import sys
import threading

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, os.path.join(ROOT, "tests/support"))
from cases import FolderCase, eventually  # noqa: E402
from ports import free_port  # noqa: E402, F401: for modules that import this one
from store_process import StoreProcess  # noqa: E402

EXAMPLES = os.path.join(ROOT, "examples")
DEADLINE = 120.0  # seconds; far more than any step takes, even on a loaded machine


def program(name):
    """The path of a program under test; MUSTER_PROGRAMS lists them as PATH does folders."""
    for path in os.environ.get("MUSTER_PROGRAMS", "").split(":"):
        if os.path.basename(path) == name and os.access(path, os.X_OK):
            return path
    raise FileNotFoundError(f"MUSTER_PROGRAMS names no executable {name}")


def worker(name):
    return os.path.join(HERE, "workers", name)


def wait_until(condition, what):
    """Returns the condition's first true value; for events without a notification."""
    return eventually(condition, what, DEADLINE)


@contextlib.contextmanager
def muster_store():
    """A separate muster-store; returns the port."""
    with StoreProcess("--bind", "127.0.0.1", program=program("muster-store")) as server:
        yield server.port
    if server.process.returncode != 0:  # a crash, or a sanitizer's report
        raise RuntimeError(f"muster-store ended with {server.process.returncode}: {server.errors}")


@contextlib.contextmanager
def torch_store(**options):
    """PyTorch's own server, in this process; returns the port."""
    from torch.distributed import TCPStore
    server = TCPStore("127.0.0.1", 0, None, True, wait_for_workers=False, **options)
    yield server.port
    del server


def store_server():
    if os.environ.get("MUSTER_TORCH_SERVER") == "torch":
        return torch_store()
    return muster_store()


def serves_itself():
    return os.environ.get("MUSTER_TORCH_SERVER") == "torch"


class Background:
    """Runs a function in a thread; result() waits for it and raises its exception."""

    def __init__(self, function, *args):
        self._value, self._error = None, None
        self._thread = threading.Thread(target=self._run, args=(function, args), daemon=True)
        self._thread.start()

    def _run(self, function, args):
        try:
            self._value = function(*args)
        except BaseException as error:  # noqa: handed to the caller of result()
            self._error = error

    def running(self):
        return self._thread.is_alive()

    def result(self):
        self._thread.join(DEADLINE)
        if self._thread.is_alive():
            raise TimeoutError("a background call never ended")
        if self._error:
            raise self._error
        return self._value


def run(command, env=None, unset=(), **options):
    """Runs a command until it exits; the environment has no launcher variables, plus `env`."""
    options.setdefault("timeout", DEADLINE)
    options.setdefault("stdin", subprocess.DEVNULL)
    return subprocess.run(command, env=clean_environment(env, unset), capture_output=True,
                          text=True, **options)


def clean_environment(extra=None, unset=()):
    """This environment without variables that a launcher sets or reads."""
    prefixes = ("PET_", "MUSTER_", "TORCHELASTIC_", "TORCH_")
    names = {"RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT", "OMP_NUM_THREADS",
             "PYTHON_EXEC", "VIRTUAL_ENV", *unset}
    kept = {k: v for k, v in os.environ.items() if k not in names and not k.startswith(prefixes)}
    # Without this, jobs would build the compiled backend in the background.
    kept.update({"MUSTER_TORCH_BUILD": "never", **(extra or {})})
    return kept


class TorchCase(FolderCase):
    """A test with its own folder, and the variables of its jobs."""

    def setUp(self):
        super().setUp()
        self.folder = str(self.folder)
        self.environment = {"PYTHON_EXEC": sys.executable, "TMPDIR": self.folder}

    def succeeded(self, done):
        """The output of a command, which must have succeeded."""
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout


class PackageCase(TorchCase):
    """The same for jobs that use the package in lib/python."""

    def setUp(self):
        super().setUp()
        self.environment.update(
            MUSTER_COLLECTIVE_LIBRARY=os.environ["MUSTER_COLLECTIVE_LIBRARY"],
            PYTHONPATH=os.path.join(ROOT, "lib", "python"))

    def launch(self, ranks, *words):
        return run([program("muster"), f"--nproc-per-node={ranks}", *words], env=self.environment)


def half():
    """The variables that select the half of the backend "muster" ("python" unless
    MUSTER_TORCH_BACKEND is set), and those for the location and mode of the compiled half."""
    names = ("MUSTER_TORCH_BACKEND", "MUSTER_TORCH_ASYNC", "XDG_CACHE_HOME")
    given = {name: os.environ[name] for name in names if name in os.environ}
    return {"MUSTER_TORCH_BACKEND": "python", **given}


def torchrun(*args):
    """The command line of the PyTorch launcher for the running interpreter."""
    return [sys.executable, "-m", "torch.distributed.run", *args]
