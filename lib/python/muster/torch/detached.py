# SPDX-License-Identifier: Apache-2.0
"""The process that builds the compiled backend in the background; background.py runs this file.

    python detached.py LOCK PATH…

LOCK: the descriptor of the locked file, which stays open until the build has ended. PATH…: the
value of sys.path. The first process exits as soon as the second one, its child process, has left
the job.
"""
import os
import sys


def main() -> None:
    sys.path[:] = sys.argv[2:]  # without this file's folder
    from muster._channel import VARIABLE, Connection
    read, write = os.pipe()
    if os.fork() != 0:
        os.close(write)
        os.read(read, 1)  # end of file: the child process has left the job
        os._exit(0)
    os.setsid()  # muster takes the leader of a process group for no worker's descendant
    if os.environ.get(VARIABLE):
        try:
            connection = Connection()
            connection.send({"type": "outlive"})
            connection.close()
        except OSError:
            pass  # muster kills the build at the end of the job, and a later job starts it again
    os.close(write)
    yield_to_others()
    from muster.torch.build import build_in_background
    build_in_background()


def yield_to_others() -> None:
    """Uses only idle CPUs and disks. If memory is short, the kernel kills this process first."""
    os.nice(19)
    try:
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
        with open("/proc/self/oom_score_adj", "w") as file:
            file.write("1000")
    except OSError:
        pass


if __name__ == "__main__":
    main()
