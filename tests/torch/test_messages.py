# SPDX-License-Identifier: Apache-2.0
"""Which send matches which receive (matching.py), and the connections over which ranks agree on it
(control.py), in one process."""
import os
import queue
import socket
import sys
import types
import unittest

import support
import torch

sys.path.insert(0, os.path.join(support.ROOT, "lib", "python"))
from muster import _library as c  # noqa: E402
from muster import errors  # noqa: E402
from muster.torch.control import _FRAME, _HELLO, ANNOUNCE, GO, Control  # noqa: E402
from muster.torch.matching import Announce, Go, Matching, Start  # noqa: E402
from muster.torch.messages import Message  # noqa: E402

TOKEN = bytes(range(32))


class Group:
    """What a message queries from its group before it starts."""

    comm = types.SimpleNamespace(error=None)
    seconds = 600.0


class MessageTest(unittest.TestCase):
    def test_a_forked_child_does_not_wait_for_what_only_the_parent_starts(self):
        message = Message(Group(), c.RECV, torch.ones(1), 1, 5)
        message._pid += 1  # as in a forked child
        with self.assertRaisesRegex(errors.InvalidState, "forked while recv from rank 1 with tag"):
            message.wait()


class MatchingTest(unittest.TestCase):
    def setUp(self):
        self.matching = Matching()

    def assert_effects(self, *effects):
        self.assertEqual(self.matching.take_effects(), list(effects))

    def test_a_message_with_a_tag_waits_for_the_receiver(self):
        self.matching.send(1, 5, "a")
        self.matching.send(1, 6, "b")
        self.matching.send(1, 5, "c")
        self.assert_effects()
        self.matching.subscribed(1)
        self.assert_effects(Announce(1, 5, 2), Announce(1, 6, 1))
        self.assertTrue(self.matching.go(1, 6))
        self.assertTrue(self.matching.go(1, 5))
        self.assert_effects(Start("b", 1), Start("a", 1))

    def test_a_go_for_no_message_is_refused(self):
        self.matching.send(1, 5, "a")
        self.assertFalse(self.matching.go(2, 5))
        self.assertFalse(self.matching.go(1, 6))
        self.assertTrue(self.matching.go(1, 5))
        self.assertFalse(self.matching.go(1, 5))

    def test_receives_of_a_tag_get_messages_in_order(self):
        self.matching.receive(1, 5, "first")
        self.matching.receive(None, 5, "any")
        self.matching.receive(1, 5, "last")
        self.matching.announced(2, 5, 1)
        self.assert_effects(Go(2, 5), Start("any", 2))
        self.matching.announced(1, 5, 3)
        self.assert_effects(Go(1, 5), Start("first", 1), Go(1, 5), Start("last", 1))
        self.matching.receive(1, 5, "more")
        self.assert_effects(Go(1, 5), Start("more", 1))

    def test_without_a_tag_any_source_gets_what_named_receives_have_left(self):
        self.assertTrue(self.matching.receives_at_once(1))
        self.matching.receive(None, 0, "any")
        self.assertFalse(self.matching.receives_at_once(1))  # it might take the other's message
        self.matching.receive(1, 0, "named")
        self.matching.announced(1, 0, 1)  # that of the receive that has started
        self.assert_effects()
        self.matching.announced(1, 0, 2)
        self.assert_effects(Start("any", 1), Start("named", 1))
        self.assertTrue(self.matching.receives_at_once(1))

    def test_who_subscribes_late_hears_of_all_messages(self):
        self.matching.sent(3)
        self.matching.sent(3)
        self.matching.subscribed(3)
        self.matching.sent(3)
        self.assert_effects(Announce(3, 0, 2), Announce(3, 0, 1))

    def test_what_nobody_can_meet_any_more_is_given_back(self):
        self.matching.receive(1, 5, "from 1")
        self.matching.receive(None, 5, "any")
        self.matching.send(1, 6, "to 1")
        self.assertEqual(self.matching.left(1, 3, {1}), ["from 1"])
        self.assertEqual(self.matching.left(2, 3, {1, 2}), ["any"])
        self.assertEqual(self.matching.refused(1), ["to 1"])
        self.assertFalse(self.matching.go(1, 6))


class Heard:
    """Records what a Control receives."""

    def __init__(self, control, is_good=True):
        self.events, self.is_good = queue.Queue(), is_good
        control.listener = self

    def subscribed(self, rank):
        self.events.put(("subscribed", rank))

    def heard(self, rank, kind, tag, count):
        self.events.put(("heard", rank, kind, tag, count))
        return self.is_good

    def left(self, rank, is_source):
        self.events.put(("left", rank, is_source))

    def next(self):
        return self.events.get(timeout=support.DEADLINE)


class ControlTest(unittest.TestCase):
    def control(self, rank):
        control = Control(rank, 3, TOKEN)
        self.addCleanup(control.close)
        return control, Heard(control)

    def setUp(self):
        self.server, self.heard = self.control(0)
        self.address = ("127.0.0.1", self.server.serve("127.0.0.1", (0, 0)))
        self.server.start()

    def connect(self, data=b""):
        connection = socket.create_connection(self.address, support.DEADLINE)
        self.addCleanup(connection.close)
        connection.sendall(data)
        return connection

    def assert_closed(self, connection):
        try:
            self.assertEqual(connection.recv(1), b"")
        except ConnectionResetError:
            pass

    def test_ranks_hear_what_they_tell_each_other(self):
        client, heard = self.control(1)
        client.connect(0, lambda: self.address)
        self.assertEqual(self.heard.next(), ("subscribed", 1))
        for tag in range(3000):
            self.server.announce(1, tag, 2)
        for tag in range(3000):
            self.assertEqual(heard.next(), ("heard", 0, ANNOUNCE, tag, 2))
        client.go(0, -7)
        self.assertEqual(self.heard.next(), ("heard", 1, GO, -7, 1))
        client.close()
        self.assertEqual(self.heard.next(), ("left", 1, False))

    def test_strangers_are_closed_and_disturb_nobody(self):
        for hello in (bytes(32), TOKEN[:31] + b"x"):
            self.assert_closed(self.connect(_HELLO.pack(hello, 1)))
        for rank in (0, 3, 1 << 31):
            self.assert_closed(self.connect(_HELLO.pack(TOKEN, rank)))
        half = self.connect(_HELLO.pack(TOKEN, 2)[:20])
        self.connect(_HELLO.pack(TOKEN, 1))
        self.assertEqual(self.heard.next(), ("subscribed", 1))
        half.sendall(_HELLO.pack(TOKEN, 2)[20:])
        self.assertEqual(self.heard.next(), ("subscribed", 2))
        self.assert_closed(self.connect(_HELLO.pack(TOKEN, 2)))  # one exists already

    def test_only_so_many_may_say_nothing(self):
        silent = [self.connect() for _ in range(65)]
        self.assert_closed(silent[0])

    def test_who_says_what_cannot_be_is_closed(self):
        for said, is_good in ((_FRAME.pack(ANNOUNCE, 1, 1), True), (_FRAME.pack(9, 1, 1), True),
                              (_FRAME.pack(GO, 1, 1), False)):
            with self.subTest(said=said):
                self.setUp()
                self.heard.is_good = is_good
                connection = self.connect(_HELLO.pack(TOKEN, 1) + said)
                self.assertEqual(self.heard.next(), ("subscribed", 1))
                self.assert_closed(connection)


if __name__ == "__main__":
    unittest.main(verbosity=2)
