# SPDX-License-Identifier: Apache-2.0
"""Features that PyTorch's TCPStore class has gained since 1.13, as the client of muster-store:
operations on several keys, queues, barriers, connections that survive a timeout, limits."""
import os
import socket
import struct
import unittest

from torch.distributed import (DistNetworkError, DistStoreError, PrefixStore, QueueEmptyError,
                               TCPStore)

import support
from store_case import LONG, StoreTest, milliseconds
from support import Background


class NewOperations(StoreTest):
    def test_the_store_says_that_it_has_them(self):
        self.assertTrue(self.client().has_extended_api())
        self.assertTrue(PrefixStore("p", self.client()).has_extended_api())

    def test_append(self):
        store = self.client()
        store.append("k", "po")
        store.append("k", "tato")
        self.assertEqual(store.get("k"), b"potato")
        waiter = self.starts_waiting(self.client().get, "later")
        store.append("later", "")
        store.add("flushed", 1)
        self.assertEqual(waiter.result(), b"")

    def test_check(self):
        store = self.client()
        self.assertTrue(store.check([]))
        self.assertFalse(store.check(["a"]))
        store.set("a", "")
        self.assertTrue(store.check(["a"]))
        self.assertFalse(store.check(["a", "b"]))

    def test_multi_set_and_multi_get(self):
        store = self.client()
        store.multi_set(["a", "b", "c"], ["1", "", "3" * 3000])
        self.assertEqual(store.multi_get(["c", "a", "b", "a"]), [b"3" * 3000, b"1", b"", b"1"])
        self.assertEqual(store.multi_get([]), [])
        store.multi_set([], [])
        self.assertEqual(store.num_keys(), 3)
        with self.assertRaisesRegex(DistStoreError, "must be of same size"):
            store.multi_set(["a"], [])

    def test_multi_get_waits_for_all(self):
        store, other = self.client(), self.client()
        waiter = self.starts_waiting(store.multi_get, ["a", "b"])
        other.multi_set(["a", "b"], ["1", "2"])
        other.add("flushed", 1)
        self.assertEqual(waiter.result(), [b"1", b"2"])

    def test_an_answer_of_64_megabytes(self):
        store = self.client()
        keys = [f"k{number}" for number in range(16)]
        for number, key in enumerate(keys):
            store.set(key, bytes([number]) * 4_000_000)
        values = store.multi_get(keys)
        self.assertEqual([len(value) for value in values], [4_000_000] * 16)
        self.assertEqual([value[-1] for value in values], list(range(16)))

    def test_list_keys(self):
        store = TCPStore("127.0.0.1", self.port, 2, False, LONG)
        prefixed = PrefixStore("p", store)
        self.assertEqual(store.list_keys(), [])  # keys in init/ are not the user's
        store.set("a", "")
        prefixed.set("b", "")
        self.assertEqual(sorted(store.list_keys()), ["a", "p/b"])
        self.assertEqual(prefixed.list_keys(), ["b"])

    def test_a_clone_is_a_second_connection_to_the_same_data(self):
        store = self.client()
        clone, prefixed = store.clone(), PrefixStore("p", store).clone()
        store.set("k", "v")
        store.set("p/k", "w")
        store.add("flushed", 1)
        self.assertEqual(clone.get("k"), b"v")
        self.assertEqual(prefixed.get("k"), b"w")
        waiter = self.starts_waiting(clone.wait, ["later"])
        store.set("later", "v")
        store.add("flushed", 1)
        waiter.result()

    def test_a_set_in_two_pieces_holds_up_nobody_else(self):
        other = self.client()
        stranger = socket.create_connection(("127.0.0.1", self.port), timeout=support.DEADLINE)
        self.addCleanup(stranger.close)
        stranger.sendall(b"\0" + struct.pack("<I", 0x3C85F7CE))
        stranger.sendall(b"\1" + struct.pack("<Q", 2) + b"/k" + struct.pack("<Q", 5) + b"va")
        for number in range(100):
            self.assertEqual(other.add("n", 1), number + 1)
        self.assertFalse(other.check(["k"]))
        stranger.sendall(b"lue")
        self.assertEqual(other.get("k"), b"value")

    def test_the_first_bytes_of_a_session(self):
        stranger = socket.create_connection(("127.0.0.1", self.port), timeout=support.DEADLINE)
        self.addCleanup(stranger.close)
        stranger.sendall(bytes.fromhex("00cef7853c"))
        stranger.sendall(bytes.fromhex("0d12345678"))
        answer = b""
        while len(answer) < 4:
            answer += stranger.recv(4 - len(answer))
        self.assertEqual(answer, bytes.fromhex("12345678"))

    def test_rank_0_of_an_agent_store_becomes_a_client_of_it(self):
        os.environ.update(TORCHELASTIC_USE_AGENT_STORE="True", MASTER_PORT=str(self.port))
        self.addCleanup(os.environ.pop, "TORCHELASTIC_USE_AGENT_STORE")
        self.addCleanup(os.environ.pop, "MASTER_PORT")
        store = TCPStore("127.0.0.1", self.port, None, True, LONG, wait_for_workers=False)
        store.set("k", "v")
        self.assertEqual(self.client().get("k"), b"v")


class Timeouts(StoreTest):
    def test_a_connection_goes_on_after_a_time_out(self):
        store = self.client()
        for _ in range(3):
            with self.assertRaises(DistStoreError):
                store.wait(["missing"], milliseconds(20))
            store.set("k", "v")
            self.assertEqual(store.get("k"), b"v")
        self.client().set("missing", "late")
        self.assertEqual(store.get("missing"), b"late")
        self.assertEqual(store.add("n", 1), 1)

    def test_a_time_out_of_nothing_asks_once(self):
        store = self.client()
        with self.assertRaisesRegex(DistStoreError, "after 0ms, keys: /missing"):
            store.wait(["missing"], milliseconds(0))
        self.assertEqual(store.add("n", 1), 1)

    def test_a_key_that_comes_in_the_very_moment_of_the_time_out(self):
        store, other = self.client(), self.client()
        outcomes = set()
        for number in range(300):
            key = f"k{number}"
            setter = Background(other.set, key, "v")
            try:
                store.wait([key], milliseconds(number % 3))
                outcomes.add("in time")
            except DistStoreError:
                outcomes.add("too late")
            self.assertEqual(store.add("n", 1), number + 1)
            setter.result()
            self.assertEqual(store.get(key), b"v")
        self.assertTrue(outcomes)

    def test_barrier_and_queue_time_outs_leave_the_connection_usable(self):
        store = self.client()
        with self.assertRaisesRegex(DistStoreError, "barrier timeout after 30ms, key: b"):
            store.barrier("b", 2, milliseconds(30))
        store.set_timeout(milliseconds(30))
        with self.assertRaisesRegex(DistStoreError, "wait timeout after 30ms, keys: /q"):
            store.queue_pop("q")
        store.queue_push("q", b"v")
        self.assertEqual(store.queue_pop("q"), b"v")


class QueuesAndBarriers(StoreTest):
    def test_a_queue_gives_back_in_order(self):
        store = self.client()
        self.assertEqual(store.queue_len("q"), 0)
        self.assertFalse(store.check(["q"]))
        for value in (b"first", b"", b"third"):
            store.queue_push("q", value)
        self.assertTrue(store.check(["q"]))
        store.wait(["q"])
        self.assertEqual(store.queue_len("q"), 3)
        self.assertEqual([store.queue_pop("q") for _ in range(3)], [b"first", b"", b"third"])
        self.assertFalse(store.check(["q"]))
        with self.assertRaisesRegex(QueueEmptyError, "queue is empty"):
            store.queue_pop("q", False)

    def test_queues_and_values_do_not_see_each_other(self):
        store = self.client()
        store.queue_push("k", b"queued")
        self.assertEqual(store.num_keys(), 0)
        self.assertEqual(store.list_keys(), [])
        self.assertFalse(store.delete_key("k"))
        store.set("k", "value")
        self.assertEqual(store.get("k"), b"value")
        self.assertEqual(store.queue_pop("k"), b"queued")

    def test_a_pop_waits_for_a_push(self):
        store, other = self.client(), self.client()
        waiter = self.starts_waiting(store.queue_pop, "q")
        other.queue_push("q", b"v")
        other.add("flushed", 1)
        self.assertEqual(waiter.result(), b"v")

    def test_two_threads_talk_through_two_queues(self):
        def echo():
            store = self.client()
            for _ in range(200):
                store.queue_push("answer", store.queue_pop("ask") + b"!")
            store.add("flushed", 1)

        echoing, store = Background(echo), self.client()
        for number in range(200):
            store.queue_push("ask", str(number).encode())
            self.assertEqual(store.queue_pop("answer"), f"{number}!".encode())
        echoing.result()

    def test_a_barrier_lets_all_go_when_the_last_comes(self):
        early = [self.starts_waiting(self.client().barrier, "b", 4) for _ in range(3)]
        self.assertTrue(all(call.running() for call in early))
        self.client().barrier("b", 4)
        for call in early:
            call.result()
        self.client().barrier("b", 4)  # the count is never reset, so a used barrier stays open
        self.assertEqual(self.client().get("b"), b"5")

    def test_a_barrier_through_a_prefix(self):
        early = self.starts_waiting(PrefixStore("p", self.client()).barrier, "b", 2)
        PrefixStore("p", self.client()).barrier("b", 2)
        early.result()


class Limits(StoreTest):
    def assert_closed(self, store):
        with self.assertRaises(DistNetworkError):
            for _ in range(3):  # the first write may still go to the closing socket
                store.num_keys()

    def test_what_is_just_allowed(self):
        store = self.client()
        store.set("k", b"x" * 8 * 1024 * 1024)
        self.assertEqual(len(store.get("k")), 8 * 1024 * 1024)
        store.append("k", "y")
        self.assertEqual(len(store.get("k")), 8 * 1024 * 1024 + 1)

    def test_too_much_ends_that_connection_only(self):
        other = self.client()
        for send in (lambda store: store.set("k", b"x" * (8 * 1024 * 1024 + 1)),
                     lambda store: store.set("k" * 8192, "v")):
            store = self.client()
            try:
                send(store)
            except DistNetworkError:
                pass
            self.assert_closed(store)
            self.assertEqual(other.num_keys(), 0)

    def test_add_to_a_text_ends_that_connection_only(self):
        store, other = self.client(), self.client()
        other.set("text", "no number")
        other.add("flushed", 1)
        with self.assertRaises(DistNetworkError):
            store.add("text", 1)
        self.assertEqual(other.get("text"), b"no number")


if __name__ == "__main__":
    unittest.main(verbosity=2)
