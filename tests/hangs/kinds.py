# SPDX-License-Identifier: Apache-2.0
"""Programs that hang, one function per kind: what rank 1 does, or all ranks do, after some
progress. Run as a worker: kinds.py KIND. @kind specifies what the verdict about each must contain.
torch_kinds.py contains those with PyTorch."""
import ctypes
import fcntl
import multiprocessing
import os
import signal
import socket
import subprocess
import sys
import threading
import time

from kind import FOREVER, KINDS, Alone, kind, library, only_rank_1
from torch_kinds import Torch


# -- what a process does in the kernel --------------------------------------------------------

@kind("sleeps", words="sleeping in sleep")
@only_rank_1
def sleep(_):
    time.sleep(FOREVER)


@kind("sleeps", ranks=1, blamed=(0,), comm=False)
def sleep_alone(_):
    time.sleep(FOREVER)


@kind("stopped", words="kill -CONT")
@only_rank_1
def stopped(_):
    os.kill(os.getpid(), signal.SIGSTOP)


@kind("stopped", words="kill -CONT", ranks=1, blamed=(0,), comm=False)
def stopped_alone(_):
    os.kill(os.getpid(), signal.SIGSTOP)


@kind("stopped", blamed=(1, 2))
def stopped_in_operation(comm):
    """Stopped by a thread while it waits in the operation, which the others have called too."""
    if comm.rank == 1:
        threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGSTOP)).start()
    if comm.rank == 2:
        time.sleep(0.5)
        os.kill(os.getpid(), signal.SIGSTOP)
    comm.barrier()


@kind("blocked_io", words="pipe")
@only_rank_1
def full_pipe(_):
    read, write = os.pipe()
    while read:
        os.write(write, bytes(65536))


@kind("blocked_io", words="fifo")
@only_rank_1
def fifo_without_reader(_):
    path = os.path.join(os.environ["SCRATCH"], "fifo")
    os.mkfifo(path)
    os.open(path, os.O_WRONLY)


@kind("blocked_io", words="fifo")
@only_rank_1
def fifo_without_data(_):
    path = os.path.join(os.environ["SCRATCH"], "fifo")
    os.mkfifo(path)
    os.read(os.open(path, os.O_RDWR), 1)


@kind("blocked_io", words="fuse", needs="/dev/fuse")
@only_rank_1
def fuse_without_answer(_):
    """A file system whose server reads no requests, like a dead NFS server."""
    libc = ctypes.CDLL(None, use_errno=True)
    where = os.path.join(os.environ["SCRATCH"], "fuse")
    os.mkdir(where)
    server = os.open("/dev/fuse", os.O_RDWR)
    options = f"fd={server},rootmode=40000,user_id=0,group_id=0".encode()
    if libc.unshare(0x00020000) or libc.mount(b"none", b"/", None, 0x44000, None):
        raise OSError(ctypes.get_errno(), "no mount namespace of its own")
    if libc.mount(b"dead", where.encode(), b"fuse", 0, options) != 0:
        raise OSError(ctypes.get_errno(), "mounting")
    os.stat(os.path.join(where, "weights"))


@kind("blocked_io", words="lock on")
@only_rank_1
def flock_of_another(_):
    path = os.path.join(os.environ["SCRATCH"], "lock")
    one, two = open(path, "w"), open(path, "w")  # noqa: SIM115
    fcntl.flock(one, fcntl.LOCK_EX)
    fcntl.flock(two, fcntl.LOCK_EX)


@kind("sleeps", blamed=(0,))
def flock_chain(comm):
    """Rank 1 waits for a lock held by rank 0, which sleeps; all others wait for rank 1."""
    path = os.path.join(os.environ["SCRATCH"], "lock")
    with open(path, "a") as file:
        if comm.rank == 0:
            fcntl.lockf(file, fcntl.LOCK_EX)
        comm.barrier()
        if comm.rank == 0:
            time.sleep(FOREVER)
        if comm.rank == 1:
            fcntl.lockf(file, fcntl.LOCK_EX)
        comm.barrier()


@kind("waits_for_input", ranks=1, blamed=(0,), comm=False, needs="stdin")
def standard_input(_):
    sys.stdin.read(1)


@kind("waits_for_socket", "skipped_collective")
@only_rank_1
def socket_without_answer(_):
    with socket.create_server(("127.0.0.1", 0)) as server:
        with socket.create_connection(server.getsockname()) as client:
            client.recv(1)


@kind("waits_for_socket", ranks=1, blamed=(0,), comm=False)
def accept_of_nobody(_):
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.accept()


@kind("sleeps", words="signal")
@only_rank_1
def pause(_):
    signal.pause()


@kind("waits_for_child", words="sleep")
@only_rank_1
def child_that_sleeps(_):
    subprocess.run(["sleep", str(FOREVER)], check=True)


@kind("waits_for_child", words="stopped by a signal")
@only_rank_1
def child_that_is_stopped(_):
    with subprocess.Popen(["sleep", str(FOREVER)]) as child:
        child.send_signal(signal.SIGSTOP)
        child.wait()


@kind("waits_for_child")
@only_rank_1
def pipe_from_child(_):
    subprocess.check_output(["sleep", str(FOREVER)])


@kind("waits_for_child", words="sleeping")
@only_rank_1
def pool(_):
    with multiprocessing.get_context("fork").Pool(2) as workers:
        workers.map(time.sleep, [FOREVER, FOREVER])


@kind("waits_for_thread", "waits_for_child")
@only_rank_1
def queue_of_dead_process(_):
    queue = multiprocessing.get_context("fork").Queue()
    queue.get()


# -- what a program computes ------------------------------------------------------------------

@kind("spinning", words="spin")
@only_rank_1
def spin(_):
    number = 0
    while True:
        number += 1


@kind("spinning", ranks=1, blamed=(0,), comm=False, words="spin_alone")
def spin_alone(_):
    """Only lines of output are visible, so CPU time counts as progress until ten limits have
    passed."""
    while True:
        pass


@kind("spinning", words="spin_in_c")
@only_rank_1
def spin_in_c(_):
    library().spin_in_c()


@kind("spinning", words="spin_in_c")
@only_rank_1
def spin_in_c_with_gil(_):
    ctypes.PyDLL(os.environ["HANGS_LIBRARY"]).spin_in_c()


@kind("sleeps", words="GIL")
@only_rank_1
def sleep_with_gil(_):
    ctypes.PyDLL(None).sleep(int(FOREVER))


@kind("deadlocked", words="GIL")
@only_rank_1
def gil_held_by_thread(_):
    """A thread sleeps in C and holds the GIL, so the main thread cannot continue."""
    held = threading.Thread(target=ctypes.PyDLL(None).sleep, args=(int(FOREVER),), daemon=True)
    held.start()
    held.join()


@kind("spinning", words="check")
@only_rank_1
def spin_on_flag(_):
    def check():
        return os.path.exists("/nowhere")
    while not check():
        pass


# -- locks ------------------------------------------------------------------------------------

@kind("deadlocked", words="second")
@only_rank_1
def lock_inversion(_):
    one, two, both = threading.Lock(), threading.Lock(), threading.Barrier(2)

    def second():
        with two:
            both.wait()
            with one:
                pass
    threading.Thread(target=second, name="second", daemon=True).start()
    with one:
        both.wait()
        with two:
            pass


@kind("deadlocked")
@only_rank_1
def lock_twice(_):
    lock = threading.Lock()
    with lock:
        lock.acquire()


@kind("deadlocked", words="hold_and_lock")
@only_rank_1
def lock_inversion_in_c(_):
    library().lock_inversion()


@kind("deadlocked")
@only_rank_1
def fork_with_locked_mutex(_):
    library().fork_with_locked_mutex()


@kind("waits_for_thread")
@only_rank_1
def condition(_):
    waiting = threading.Condition()
    with waiting:
        waiting.wait()


@kind("sleeps", words="thread")
@only_rank_1
def join_of_sleeper(_):
    sleeper = threading.Thread(target=lambda: time.sleep(FOREVER), daemon=True)
    sleeper.start()
    sleeper.join()


# -- collective operations --------------------------------------------------------------------

def buffer():
    return bytearray(64)


@kind("different_collective", words="eval")
def other_group(comm):
    """It waits for the others in one group, and they wait for it in another."""
    import muster
    other = muster.Communicator.from_env(name="eval", timeout=FOREVER)
    (other if comm.rank == 1 else comm).barrier()


@kind("skipped_collective", words="socket")
def waits_elsewhere(comm):
    """It skips the operation in which the others wait, and waits for one of them in a separate
    operation."""
    if comm.rank == 1:
        with socket.create_server(("127.0.0.1", 0)) as server:
            server.accept()
    comm.all_reduce(buffer())


@kind("sleeps")
def barrier_of_a_part(comm):
    comm.all_reduce(buffer())
    if comm.rank == 1:
        time.sleep(FOREVER)
    comm.barrier()


@kind("sleeps")
def asynchronous(comm):
    """The others wait for an operation that they started earlier."""
    if comm.rank == 1:
        time.sleep(FOREVER)
    comm.all_reduce(buffer(), async_op=True).wait()


@kind("waits_for_rank", "all_wait", blamed=(0, 1, 2))
def receive_from_each_other(comm):
    """Ranks 0 and 1 receive, but no rank sends; rank 2 waits for both."""
    if comm.rank < 2:
        comm.recv(buffer(), 1 - comm.rank)
    comm.barrier()


@kind("sleeps", words="sleeping")
def chain(comm):
    """Rank 0 receives from rank 2, which receives from rank 1, which sleeps."""
    if comm.rank == 1:
        time.sleep(FOREVER)
    comm.recv(buffer(), {0: 2, 2: 1}[comm.rank])


def main():
    chosen = KINDS[sys.argv[1]]
    comm = Alone()
    if chosen.torch:
        comm = Torch(chosen.torch, chosen.trains)
    elif chosen.comm:
        import muster
        comm = muster.Communicator.from_env(timeout=FOREVER)
        for _ in range(4):
            comm.barrier()
    else:
        print("begun", flush=True)
    chosen.run(comm)


if __name__ == "__main__":
    main()
