# SPDX-License-Identifier: Apache-2.0
"""Programs that are slow but do not hang: slow.py KIND. Also some that hang for a while."""
import json
import os
import signal
import sys
import time

LIMIT = 1.0  # of --hang-timeout


def communicator():
    import muster
    comm = muster.Communicator.from_env()
    comm.barrier()
    return comm


def slow_steps():
    """Each step takes most of the limit."""
    comm = communicator()
    for _ in range(6):
        time.sleep(0.6 * LIMIT)
        comm.barrier()


def checkpoint():
    """Rank 1 writes for several limits, and the others wait for it."""
    comm = communicator()
    if comm.rank == 1:
        with open(os.path.join(os.environ["SCRATCH"], "checkpoint"), "wb") as file:
            for _ in range(40):
                file.write(bytes(1 << 20))
                file.flush()
                time.sleep(0.1 * LIMIT)
    comm.barrier()


def checkpoint_read():
    """Like checkpoint, but it reads."""
    comm = communicator()
    if comm.rank == 1:
        with open("/dev/zero", "rb", buffering=0) as file:
            for _ in range(40):
                file.read(1 << 20)
                time.sleep(0.1 * LIMIT)
    comm.barrier()


def compute(seconds):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        pass


def compile_first():
    """Before its first operation rank 1 computes, and the others wait for it."""
    print("begun", flush=True)
    if os.environ["RANK"] == "1":
        compute(3 * LIMIT)
    communicator()


def output_only():
    """Only lines of output are visible, and only those of rank 0."""
    for step in range(16):
        time.sleep(0.3 * LIMIT)
        if os.environ["RANK"] == "0":
            print("step", step, flush=True)


def prints_while_others_wait():
    """Rank 0 evaluates and reports it, and the others wait for it."""
    comm = communicator()
    for step in range(12 if comm.rank == 0 else 0):
        time.sleep(0.3 * LIMIT)
        print("batch", step, flush=True)
    comm.barrier()


def steps_of_the_channel():
    """It reports steps to the launcher, but runs no operations."""
    import muster.worker
    for step in range(12):
        muster.worker.progress(step)
        time.sleep(0.5 * LIMIT)


KINDS = [slow_steps, checkpoint, checkpoint_read, compile_first, output_only,
         prints_while_others_wait, steps_of_the_channel]


def hang_once():
    """In its first attempt rank 1 reads from a FIFO to which no process writes."""
    comm = communicator()
    if comm.rank == 1 and os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
        read_fifo()
    comm.barrier()


def hang_always():
    comm = communicator()
    if comm.rank == 1:
        read_fifo()
    comm.barrier()


def raise_and_hang():
    """Rank 1 leaves the error file that torch's record writes, and hangs before it exits."""
    comm = communicator()
    if comm.rank == 1:
        message = {"message": "ValueError: bad batch", "extraInfo": {
            "py_callstack": "Traceback (most recent call last):\nValueError: bad batch",
            "timestamp": str(int(time.time()))}}
        with open(os.environ["TORCHELASTIC_ERROR_FILE"], "w", encoding="ascii") as file:
            json.dump({"message": message}, file)
        read_fifo()
    comm.barrier()


def says_and_hangs():
    """Like hang_always, but each rank first prints something."""
    print("begun", flush=True)
    hang_always()


def read_fifo():
    with open(os.path.join(os.environ["SCRATCH"], "fifo"), "rb") as file:
        file.read()


def steps_then_fifo():
    import muster.worker
    for step in range(3):
        muster.worker.progress(step)
        time.sleep(0.2 * LIMIT)
    read_fifo()
    muster.worker.progress(3)
    time.sleep(0.6 * LIMIT)


def fifo_then_steps():
    """Rank 1 waits on a FIFO after some steps that all ranks have reported; then all continue."""
    import muster.worker
    for step in range(20):
        if step == 3 and os.environ["RANK"] == "1":
            read_fifo()
        muster.worker.progress(step)
        if step == 3:
            communicator()
        time.sleep(0.2 * LIMIT)


def stop_own_agent():
    """Rank 1 stops the agent of its node, and then reads from the FIFO."""
    comm = communicator()
    if comm.rank == 1:
        os.kill(os.getppid(), signal.SIGSTOP)
        read_fifo()
    comm.barrier()


def silent():
    """It never prints, so it is judged only if all of its output would be visible."""
    read_fifo()


if __name__ == "__main__":
    globals()[sys.argv[1]]()
