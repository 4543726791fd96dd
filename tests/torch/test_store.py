# SPDX-License-Identifier: Apache-2.0
"""The TCPStore class of the running PyTorch as the client of muster-store."""
import multiprocessing
import os
import signal
import socket
import threading
import time
import unittest

from torch.distributed import PrefixStore, TCPStore

import support
from store_case import IS_OLD, LONG, OLD_SERVER, StoreTest, milliseconds
from support import Background

if not IS_OLD:
    from torch.distributed import DistStoreError


class Values(StoreTest):
    def test_a_value_comes_back_byte_for_byte(self):
        store, other = self.client(), self.client()
        for value in (b"", b"v", b"\0\xff\n\0", bytes(range(256)) * 41, b"x" * 1_000_000):
            store.set("key", value)
            store.add("flushed", 1)
            self.assertEqual(other.get("key"), value)

    def test_keys_of_many_lengths_are_told_apart(self):
        store = self.client()
        keys = ["", "k", "k/", "/k", "//", "k" * 1439, "k" * 1440, "k" * 8191, "schlüssel"]
        for number, key in enumerate(keys):
            store.set(key, str(number))
        for number, key in enumerate(keys):
            self.assertEqual(store.get(key), str(number).encode())
        self.assertEqual(store.num_keys(), len(keys))

    def test_add_counts_in_decimal_text(self):
        store = self.client()
        self.assertEqual([store.add("n", delta) for delta in (1, 2, 3)], [1, 3, 6])
        self.assertEqual(store.get("n"), b"6")
        self.assertEqual(store.add("n", -10), -4)
        self.assertEqual(store.add("zero", 0), 0)
        self.assertEqual(store.get("zero"), b"0")
        store.set("text", "41")
        self.assertEqual(store.add("text", 1), 42)
        self.assertEqual(sum(store.add("series", n) for n in range(7)), 56)
        self.assertEqual(store.get("series"), b"21")

    def test_add_holds_numbers_of_64_bits(self):
        store = self.client()
        self.assertEqual(store.add("big", 2**63 - 1), 2**63 - 1)
        self.assertEqual(store.get("big"), b"9223372036854775807")
        self.assertEqual(store.add("big", 1), -(2**63))

    def test_compare_set_in_its_five_cases(self):
        store = self.client()
        self.assertEqual(store.compare_set("k", "wrong", "v"), b"wrong")  # missing: not stored
        self.assertEqual(store.num_keys(), 0)
        self.assertEqual(store.compare_set("k", "", "first"), b"first")
        self.assertEqual(store.compare_set("k", "wrong", "v"), b"first")
        self.assertEqual(store.compare_set("k", "first", "second"), b"second")
        self.assertEqual(store.get("k"), b"second")
        self.assertEqual(store.compare_set("k", "", "v"), b"second")

    def test_delete_key_and_num_keys(self):
        store = self.client()
        self.assertEqual(store.num_keys(), 0)
        for number in range(5):
            store.set(f"k{number}", "v")
        self.assertEqual(store.num_keys(), 5)
        self.assertTrue(store.delete_key("k0"))
        self.assertFalse(store.delete_key("k0"))
        self.assertFalse(store.delete_key("never"))
        self.assertEqual(store.num_keys(), 4)

    def test_a_client_that_names_a_world_size_counts_itself(self):
        first = TCPStore("127.0.0.1", self.port, 2, False, LONG)
        self.assertEqual(first.num_keys(), 1)  # init/
        TCPStore("127.0.0.1", self.port, 2, False, LONG)
        self.assertEqual(first.num_keys(), 1)

    def test_a_stream_of_unanswered_sets_is_kept_whole(self):
        store = self.client()
        for number in range(20_000):
            store.set(f"k{number}", f"v{number}")
        self.assertEqual(store.num_keys(), 20_000)
        self.assertEqual(store.get("k19999"), b"v19999")
        self.assertEqual(store.get("k77"), b"v77")

    def test_localhost_is_found_by_name(self):
        store = TCPStore("localhost", self.port, None, False, LONG)
        store.set("k", "v")
        self.assertEqual(store.get("k"), b"v")


class Waiting(StoreTest):
    def test_wait_ends_when_the_last_of_its_keys_is_there(self):
        store, other = self.client(), self.client()
        store.set("a", "1")
        store.wait(["a"])
        store.wait([])
        waiter = self.starts_waiting(store.wait, ["a", "b", "c", "b"])
        other.set("b", "2")
        other.add("flushed", 1)
        self.assertTrue(waiter.running())
        other.add("c", 1)
        waiter.result()

    def test_get_waits_for_the_value(self):
        store, other = self.client(), self.client()
        wakes = [lambda k: other.set(k, "7"), lambda k: other.add(k, 7)]
        if not OLD_SERVER:  # whose compare_set woke no client
            wakes.append(lambda k: other.compare_set(k, "", "7"))
        for number, wake in enumerate(wakes):
            waiter = self.starts_waiting(store.get, f"k{number}")
            wake(f"k{number}")
            self.assertEqual(waiter.result(), b"7")

    def test_waiting_on_a_thousand_keys(self):
        store, other = self.client(), self.client()
        keys = [f"key/{number}" for number in range(1000)]
        waiter = self.starts_waiting(store.wait, keys)
        for key in keys:
            other.set(key, "v")
        other.add("flushed", 1)
        waiter.result()

    def test_a_wait_that_times_out_says_so(self):
        store = self.client()
        started = time.monotonic()
        with self.assertRaises(RuntimeError) as caught:
            store.wait(["nonexistent key", "b"], milliseconds(100))
        self.assertGreaterEqual(time.monotonic() - started, 0.099)
        if IS_OLD:
            self.assertIn("Socket Timeout", str(caught.exception))
        else:
            self.assertIs(type(caught.exception), DistStoreError)
            self.assertIn("wait timeout after 100ms, keys: /nonexistent key, /b",
                          str(caught.exception))

    def test_set_timeout_rules_get(self):
        store = self.client(timeout=LONG)
        store.set_timeout(milliseconds(50))
        with self.assertRaises(RuntimeError):
            store.get("missing")

    def test_a_deleted_key_is_waited_for_again(self):
        store = self.client()
        store.set("k", "v")
        self.assertTrue(store.delete_key("k"))
        store.set_timeout(milliseconds(100))
        with self.assertRaises(RuntimeError):
            store.get("k")

    def test_a_signal_handler_does_not_end_a_wait(self):
        store, other = self.client(), self.client()
        handled = []
        before = signal.signal(signal.SIGUSR1, lambda *_: handled.append(1))
        self.addCleanup(signal.signal, signal.SIGUSR1, before)
        main = threading.main_thread().ident

        def interrupt_and_set():
            for _ in range(5):
                time.sleep(0.01)
                signal.pthread_kill(main, signal.SIGUSR1)
            other.set("k", "v")
            other.add("flushed", 1)

        helper = Background(interrupt_and_set)
        store.wait(["k"])
        helper.result()
        self.assertTrue(handled)
        self.assertEqual(store.get("k"), b"v")

    def test_threads_wait_for_each_other_plain_and_through_a_prefix(self):
        for wrap in (lambda store: store, lambda store: PrefixStore("p", store)):
            waiting, setting = wrap(self.client()), wrap(self.client())
            waiter = self.starts_waiting(waiting.wait, ["from the other thread"])
            Background(setting.set, "from the other thread", "v").result()
            setting.add("flushed", 1)
            waiter.result()


class Prefixes(StoreTest):
    def test_prefixes_nest_outermost_last(self):
        store = self.client()
        nested = PrefixStore("outer", PrefixStore("inner", store))
        nested.set("k", "v")
        self.assertEqual(nested.get("k"), b"v")
        self.assertEqual(store.get("inner/outer/k"), b"v")

    def test_every_operation_goes_through_a_prefix(self):
        store = self.client()
        mine = PrefixStore("mine", store)
        self.assertEqual(mine.add("n", 5), 5)
        self.assertEqual(mine.compare_set("c", "", "v"), b"v")
        self.assertEqual(mine.num_keys(), 2)  # for the whole store
        store.set("other", "v")
        self.assertEqual(mine.num_keys(), 3)
        self.assertTrue(mine.delete_key("n"))
        self.assertFalse(mine.delete_key("other"))
        mine.wait(["c"])


def meet(port, rank, count):
    """One of many clients: announces its number, waits for all others, adds itself to the sum."""
    store = TCPStore("127.0.0.1", port, None, False, LONG)
    store.set(f"rank/{rank}", str(rank))
    store.wait([f"rank/{peer}" for peer in range(count)])
    peers = sum(int(store.get(f"rank/{peer}")) for peer in range(count))
    store.add("sum", peers)
    store.add("done", 1)
    return peers


class Crowd(StoreTest):
    COUNT = 64

    def check(self):
        store = self.client()
        expected = self.COUNT * (self.COUNT - 1) // 2
        self.assertEqual(store.get("sum"), str(expected * self.COUNT).encode())
        self.assertEqual(store.get("done"), str(self.COUNT).encode())

    def test_64_threads_at_once(self):
        calls = [Background(meet, self.port, rank, self.COUNT) for rank in range(self.COUNT)]
        self.assertEqual({call.result() for call in calls}, {64 * 63 // 2})
        self.check()

    def test_64_processes_at_once(self):
        fork = multiprocessing.get_context("fork")
        clients = [fork.Process(target=meet, args=(self.port, rank, self.COUNT))
                   for rank in range(self.COUNT)]
        for client in clients:
            client.start()
        for client in clients:
            client.join(support.DEADLINE)
            self.assertEqual(client.exitcode, 0)
        self.check()


class Strangers(StoreTest):
    def send(self, data):
        stranger = socket.create_connection(("127.0.0.1", self.port), timeout=support.DEADLINE)
        self.addCleanup(stranger.close)
        stranger.sendall(data)
        return stranger

    @unittest.skipIf(OLD_SERVER, "PyTorch 1.13's own server hangs on a stranger")
    def test_clients_that_speak_something_else_disturb_nobody(self):
        store = self.client()
        store.set("k", "v")
        for rubbish in (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", b"\0", b"\xff" * 4096,
                        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", os.urandom(3000)):
            self.send(rubbish)
            self.assertEqual(store.get("k"), b"v")
            self.assertEqual(self.client().get("k"), b"v")

    def test_a_client_that_vanishes_while_it_waits_disturbs_nobody(self):
        store = self.client()
        fork = multiprocessing.get_context("fork")
        waiting = fork.Event()

        def wait_forever():
            doomed = TCPStore("127.0.0.1", self.port, None, False, LONG)
            doomed.add("n", 1)
            waiting.set()
            doomed.wait(["never"])

        doomed = fork.Process(target=wait_forever)
        doomed.start()
        self.assertTrue(waiting.wait(support.DEADLINE))
        doomed.kill()
        doomed.join()
        store.set("never", "v")
        self.assertEqual(store.get("n"), b"1")
        self.assertEqual(self.client().get("never"), b"v")


@unittest.skipIf(IS_OLD or support.serves_itself(), "asked once, of muster-store")
class Mixed(StoreTest):
    def test_clients_of_both_dialects_share_one_store(self):
        runner = os.path.join(support.HERE, "with_torch")
        calls = [Background(support.run, [runner, kind, "workers/meet.py", str(self.port)])
                 for kind in ("debian", "current")]
        answers = [call.result() for call in calls]
        for answer in answers:
            self.assertEqual(answer.returncode, 0, answer.stdout + answer.stderr)
        self.assertRegex(answers[0].stdout, r"^1\.\d+\S* 2\.\d+\S*$")
        self.assertEqual(answers[0].stdout, answers[1].stdout)


if __name__ == "__main__":
    unittest.main(verbosity=2)
