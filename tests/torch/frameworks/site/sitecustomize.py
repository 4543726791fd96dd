# SPDX-License-Identifier: Apache-2.0
"""Python imports this at startup. Loads the .pth file of lib/python, as Python loads that of the
wheel. Also works around a bug in PyTorch: DistributedDataParallel leaks its process group, so
gloo's threads still exist when the interpreter finalizes. A thread that releases a tensor then
aborts the process, which prints "terminate called without an active exception"
(pytorch/pytorch#190489; also happens without any launcher). So a process waits at exit until those
threads sleep, which they do once they hold nothing."""
import atexit
import contextlib
import glob
import os
import site
import sys
import time

LOOKS = 3  # in a row; a thread may also sleep briefly while it waits for the interpreter's lock
LIMIT = 30.0  # seconds


def all_sleep():
    for path in glob.glob("/proc/self/task/*/stat"):
        with contextlib.suppress(OSError), open(path, encoding="utf-8") as file:
            name, _, rest = file.read().partition("(")[2].rpartition(")")
            if name == "pt_gloo_runloop" and rest.split()[0] != "S":
                return False
    return True


def wait_for_gloo():
    if "torch.distributed" not in sys.modules:
        return
    end = time.monotonic() + LIMIT
    asleep = 0
    while asleep < LOOKS and time.monotonic() < end:
        time.sleep(0.001)  # without the interpreter's lock
        asleep = asleep + 1 if all_sleep() else 0


atexit.register(wait_for_gloo)
site.addsitedir(os.path.join(os.path.dirname(__file__), "../../../../lib/python"))
