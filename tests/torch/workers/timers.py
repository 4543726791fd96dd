# SPDX-License-Identifier: Apache-2.0
"""Sets timers as in PyTorch's documentation. The argument selects what rank 1 does."""
import os
import signal
import sys

import torch.distributed.elastic.timer as timer

what, rank = sys.argv[1], int(os.environ["RANK"])
again = os.environ["TORCHELASTIC_RESTART_COUNT"] != "0"
path = os.environ["TORCHELASTIC_TIMER_FILE"]
timer.configure(timer.FileTimerClient(path, signal.SIGTERM if what == "asks" else signal.SIGKILL))


def block():
    with timer.expires(after=0.5, scope="step"):
        signal.pause()


def finish(*_):
    os._exit(5)


for step in range(20):  # released in time
    with timer.expires(after=0.5 if what == "short" else 600):
        pass
print(f"rank {rank} has released its timers", flush=True)
if rank == 0 or again:
    sys.exit()
if what == "asks":
    signal.signal(signal.SIGTERM, finish)
if what == "child" and os.fork() > 0:
    signal.pause()
if what != "short":
    block()
