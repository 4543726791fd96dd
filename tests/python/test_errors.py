# SPDX-License-Identifier: Apache-2.0
"""Errors as exceptions that name the rank, in processes that muster starts; fork; no launcher."""
import os
import pickle
import signal
import socket
import subprocess
import sys
import threading
import time
import unittest
from concurrent.futures import ThreadPoolExecutor

import numpy

import muster
from support import JobCase, environment, main, say, worker


def tell(call):
    """Calls the function and prints the exception."""
    try:
        call()
    except muster.Error as error:
        say(f"{type(error).__name__} rank {error.rank} seq {error.seq}: {error}")
        return error
    raise AssertionError("no error")


@worker
def killed():
    comm = muster.Communicator.from_env()
    x = numpy.ones(100, "f4")
    for _ in range(3):
        comm.all_reduce(x)
    if comm.rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    error = tell(lambda: comm.all_reduce(x))
    assert isinstance(error, ConnectionError) and error.fatal
    tell(lambda: comm.all_reduce(x, async_op=True).wait())
    assert isinstance(comm.error, muster.PeerFailed) and comm.error.rank == 1
    if comm.rank == 2:
        again = comm.rebuild(0, 1, comm.epoch + 1)
        assert again.all_reduce(numpy.ones(1))[0] == 1
        say("rebuilt")


@worker
def missing():
    comm = muster.Communicator.from_env()
    x = numpy.ones(10, "f4")
    comm.barrier()
    if comm.rank == 1:
        received = comm.recv(x, 2, async_op=True)
        try:
            received.wait(0.05)
        except muster.TimedOut as error:
            assert error.rank is None and not received.done
        say("patient")
        try:
            received.wait(60)  # ends when the other ranks give up waiting for us
        except muster.Error:
            assert comm.error is not None
        return
    tell(lambda: comm.all_reduce(x, timeout=3))


@worker
def disagree():
    comm = muster.Communicator.from_env()
    tell(lambda: comm.all_reduce(numpy.ones(10 + comm.rank, "f4")))


@worker
def refused():
    comm = muster.Communicator.from_env()
    x = numpy.ones(3, "f4")
    tell(lambda: comm.all_reduce(x, "median"))
    tell(lambda: comm.broadcast(x, 5))
    tell(lambda: comm.all_reduce(x, out=numpy.ones(3, "f8")))
    tell(lambda: comm.reduce_scatter(numpy.ones(comm.size + 1)))
    tell(lambda: comm.all_gather(bytearray(3)))
    comm.all_reduce(x)  # the calls above did not harm it
    comm.close()
    comm.close()
    tell(lambda: comm.all_reduce(x))


@worker
def aborted():
    comm = muster.Communicator.from_env()
    if comm.rank == 0:
        comm.abort("the loss is NaN")
    tell(lambda: comm.all_reduce(numpy.ones(3)))


@worker
def raises(how):
    if os.environ["RANK"] == "0":  # prints its error before the launcher's SIGTERM kills it
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    comm = muster.Communicator.from_env()
    if comm.rank == 1:
        pending = comm.all_reduce(numpy.ones(3), async_op=True)
        if how == "with":
            with comm:
                raise ArithmeticError("the loss is infinite")
        assert not pending.done
        raise ArithmeticError("the loss is infinite")
    comm.recv(numpy.ones(3), 1)


@worker
def waits_in_a_child():
    """Rank 1 sends what rank 0 waits for once rank 0's child has exited."""
    comm = muster.Communicator.from_env()
    x = numpy.ones(3, "f4")
    if comm.rank == 1:
        comm.recv(x, 0)
        comm.send(numpy.full(3, 5, "f4"), 0)
        return
    work = comm.recv(x, 1, async_op=True)
    child = os.fork()
    if child == 0:
        try:
            assert work.done
            work.wait()
        except muster.InvalidState as error:
            print(f"child: {error}", flush=True)
        os._exit(0)
    os.waitpid(child, 0)
    comm.send(x, 1)
    work.wait()
    print(f"parent: {x.sum():g}", flush=True)


@worker
def two_threads():
    """Rank 1 joins no operation of rank 0, so both of these block until they are refused."""
    comm = muster.Communicator.from_env()
    errors = []

    def call(operation):
        try:
            operation()
        except muster.Error as error:
            errors.append(error)
    if comm.rank == 0:
        other = threading.Thread(target=call, args=(comm.barrier,))
        other.start()
        call(lambda: comm.all_reduce(numpy.ones(3, "f4")))
        other.join()
    else:
        call(lambda: comm.recv(numpy.ones(3, "f4"), 0))
    call(comm.barrier)
    for error in errors:
        print(f"{type(error).__name__} rank {error.rank}: {error}", flush=True)


@worker
def forks():
    comm = muster.Communicator.from_env()
    x = numpy.ones(3, "f4")
    work = comm.all_reduce(x, async_op=True)
    work.wait()
    child = os.fork()
    if child == 0:
        try:
            comm.all_reduce(x)
        except muster.InvalidState:
            del comm, work
            sys.exit(42)  # through the whole shutdown of a Python process
        sys.exit(1)
    _, status = os.waitpid(child, 0)
    comm.all_reduce(x)
    say(f"child {os.waitstatus_to_exitcode(status)}, sum {x[0]:.0f}")


class Errors(JobCase):
    def test_nobody_tells_anything_else_of_a_killed_rank(self):
        done = self.job(4, "killed")
        self.assertNotEqual(done.returncode, 0)
        lines = sorted(line for line in done.stdout.splitlines())
        self.assertIn("rank 1 killed by SIGKILL", done.stderr)
        # The launcher kills the others once it has noticed the death, which is soon, so possibly
        # none of them has printed its error. The next test checks the complete output.
        for line in lines:
            self.assertRegex(line, r"^PeerFailed rank 1 seq \d+: .*rank 1|^rebuilt$")

    def test_all_others_say_it_where_nobody_ends_them(self):
        outputs = self.by_hand(4, "killed")
        self.assertEqual(outputs[1], [])
        for rank in (0, 2, 3):
            self.assertEqual(len(outputs[rank]), 3 if rank == 2 else 2, outputs)
            for line in outputs[rank][:2]:
                self.assertRegex(line, r"^PeerFailed rank 1 seq \d+: .*rank 1 .*died")
        self.assertEqual(outputs[2][2], "rebuilt")

    def test_a_rank_that_does_not_come_is_named(self):
        lines = self.succeed(3, "missing")
        self.assertEqual(lines[2], "patient")
        for line in lines[:2]:
            self.assertRegex(line, r"^TimedOut rank 1 seq \d+: .*rank 1")

    def test_ranks_that_disagree(self):
        for line in self.succeed(2, "disagree"):
            self.assertRegex(line, r"^Mismatch .*\b10\b.*\b11\b|^Mismatch .*\b11\b.*\b10\b")

    def test_wrong_arguments_harm_nothing(self):
        lines = self.succeed(2, "refused")
        kinds = [line.split(" rank ")[0] for line in lines]
        self.assertEqual(kinds, ["InvalidArgument"] * 10 + ["InvalidState"] * 2, lines)

    def test_abort_tells_the_reason(self):
        for line in self.succeed(2, "aborted"):
            self.assertRegex(line, r"^Aborted rank 0 .*the loss is NaN")

    def test_an_exception_ends_a_rank_that_has_operations_under_way(self):
        for how, told in (("plain", "with pending operations"), ("with", "the loss is infinite")):
            began = time.monotonic()
            done = self.job(2, "raises", how)
            self.assertEqual(done.returncode, 1, done.stderr)
            self.assertLess(time.monotonic() - began, 60)  # not the timeout of 600 s
            self.assertIn("ArithmeticError: the loss is infinite", done.stderr)
            self.assertNotIn("signal", done.stderr)
            self.assertRegex(done.stderr, f"Aborted: rank 1 aborted: .*{told}")

    def test_a_forked_child_is_refused_and_does_no_harm(self):
        self.assertEqual(self.succeed(2, "forks"), ["child 42, sum 4"] * 2)

    def test_a_forked_child_does_not_wait_for_the_parents_operation(self):
        child, parent = self.succeed(2, "waits_in_a_child")
        self.assertIn("child: this process was forked while the operation was pending", child)
        self.assertEqual(parent, "parent: 15")

    def test_two_threads_end_a_communicator_on_all_ranks_with_the_rule(self):
        lines = self.succeed(2, "two_threads")
        self.assertEqual(len(lines), 5, lines)
        for line in lines:
            self.assertRegex(line, "^Aborted rank 0: .*Only one thread at a time may use a "
                                   "communicator")


class Starts(unittest.TestCase):
    def run_python(self, text, **variables):
        return subprocess.run([sys.executable, "-c", text], text=True, capture_output=True,
                              env=environment(**variables), timeout=60)

    def test_the_missing_variable_is_named(self):
        done = self.run_python("import muster; muster.Communicator.from_env()")
        self.assertIn("muster.errors.InvalidArgument: ", done.stderr)
        self.assertIn("WORLD_SIZE is not set", done.stderr)

    def test_a_library_that_is_not_there_is_told(self):
        done = self.run_python("import muster", MUSTER_COLLECTIVE_LIBRARY="/nowhere/x.so")
        self.assertIn("MUSTER_COLLECTIVE_LIBRARY=/nowhere/x.so: no such file",
                      done.stderr)

    def test_a_library_that_is_another_is_told(self):
        other = next(name for name in (f"/lib/{os.uname().machine}-linux-gnu/libm.so.6",
                                       "/lib64/libm.so.6") if os.path.exists(name))
        done = self.run_python("import muster", MUSTER_COLLECTIVE_LIBRARY=other)
        self.assertIn("has no muster_", done.stderr)

    def test_the_number_of_recorded_operations_is_checked(self):
        with self.assertRaisesRegex(muster.InvalidArgument, "recorder_entries is -1"):
            muster.Communicator.create(None, 0, 1, recorder_entries=-1)
        for entries in (0, 3):
            with muster.Communicator.create(None, 0, 1, recorder_entries=entries) as comm:
                comm.barrier()

    def test_a_port_range_that_is_none(self):
        with self.assertRaisesRegex(muster.InvalidArgument, "port range '5-1'"):
            muster.Communicator.create(None, 0, 1, port_range="5-1")

    def test_a_port_range_that_is_taken(self):
        with muster.ServedStore() as store, socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            port = taken.getsockname()[1]

            def reason(rank):
                with self.assertRaises(muster.Error) as caught:
                    muster.Communicator.create(
                        ("127.0.0.1", store.port), rank, 2, backend="tcp", address="127.0.0.1",
                        port_range=f"{port}-{port}")
                return str(caught.exception)

            with ThreadPoolExecutor() as ranks:
                for text in ranks.map(reason, range(2)):
                    self.assertIn("already in use", text)

    def test_alone_without_a_store(self):
        with muster.Communicator.create(None, 0, 1) as comm:
            self.assertEqual(comm.all_reduce(bytearray(b"\5"))[0], 5)

    def test_a_store_of_our_own(self):
        with muster.ServedStore() as store:
            with muster.Communicator.create(("127.0.0.1", store.port), 0, 1, job="x") as comm:
                self.assertEqual((comm.rank, comm.size), (0, 1))
            with self.assertRaises(muster.SystemFailed):
                muster.ServedStore(store.port)

    def test_no_rank_comes(self):
        with muster.ServedStore() as store, self.assertRaises(muster.TimedOut):
            muster.Communicator.create(("127.0.0.1", store.port), 0, 2, init_timeout=0.2)

    def test_errors_cross_processes(self):
        error = muster.PeerFailed("rank 3 has died", rank=3, seq=7)
        copy = pickle.loads(pickle.dumps(error))
        self.assertEqual((type(copy), str(copy), copy.rank, copy.seq),
                         (muster.PeerFailed, "rank 3 has died", 3, 7))


if __name__ == "__main__":
    main()
