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
import tempfile
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, os.path.join(ROOT, "tests/support"))
from ports import free_port  # noqa: E402, F401: for modules that import this one

EXAMPLES = os.path.join(ROOT, "examples")
DEADLINE = 120.0  # seconds; far more than any step takes, even on a loaded machine


def program(name):
    """The path of a program under test; MUSTER_PROGRAMS lists them as PATH does folders."""
    for path in os.environ.get("MUSTER_PROGRAMS", "").split(":"):
        if os.path.basename(path) == name and os.access(path, os.X_OK):
            return path
    raise FileNotFoundError(f"MUSTER_PROGRAMS names no executable {name}")


def wait_until(condition, what):
    """Returns the condition's first true value; for events without a notification."""
    end = time.monotonic() + DEADLINE
    while time.monotonic() < end:
        value = condition()
        if value:
            return value
        time.sleep(0.002)
    raise TimeoutError(f"waited {DEADLINE:.0f} s for {what}")


def _read_port(path):
    try:
        with open(path) as file:
            text = file.read()
    except FileNotFoundError:
        return None
    return int(text) if text.endswith("\n") else None


@contextlib.contextmanager
def muster_store():
    """A separate muster-store; returns the port."""
    with tempfile.TemporaryDirectory(prefix="muster-test-") as folder:
        port_file = os.path.join(folder, "port")
        command = [program("muster-store"), "--bind", "127.0.0.1", "--port", "0",
                   "--port-file", port_file]
        with subprocess.Popen(command, stdin=subprocess.DEVNULL) as server:
            try:
                def port_or_death():
                    if server.poll() is not None:
                        raise RuntimeError(f"muster-store ended with {server.returncode}")
                    return _read_port(port_file)
                yield wait_until(port_or_death, "the port of muster-store")
            finally:
                server.terminate()
                code = server.wait(DEADLINE)
        if code != 0:  # a crash, or a sanitizer's report
            raise RuntimeError(f"muster-store ended with {code}")


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
    kept.update(extra or {})
    return kept


def half():
    """The variables that select the half of the backend "muster" ("python" unless
    MUSTER_TORCH_BACKEND is set), and those for the location and mode of the compiled half."""
    names = ("MUSTER_TORCH_BACKEND", "MUSTER_TORCH_ASYNC", "XDG_CACHE_HOME")
    given = {name: os.environ[name] for name in names if name in os.environ}
    return {"MUSTER_TORCH_BACKEND": "python", **given}


def torchrun(*args):
    """The command line of the PyTorch launcher for the running interpreter."""
    return [sys.executable, "-m", "torch.distributed.run", *args]
