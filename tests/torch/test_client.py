# SPDX-License-Identifier: Apache-2.0
"""Our client against PyTorch's own TCPStore servers, with PyTorch's client as its partner."""
import contextlib
import subprocess
import sys
import unittest
from datetime import timedelta

import torch
from torch.distributed import PrefixStore, TCPStore

import support

IS_OLD = int(torch.__version__.split(".")[0]) < 2
LONG = timedelta(seconds=support.DEADLINE)


def control(port, *words):
    return support.run([support.program("musterctl"), "store", words[0], f"127.0.0.1:{port}",
                        *words[1:]])


@unittest.skipIf(IS_OLD, "the client speaks the dialect of PyTorch 2.1 and later")
class Talk(unittest.TestCase):
    def talk(self, server, queues):
        with server as port:
            store = TCPStore("127.0.0.1", port, None, False, LONG)
            command = [support.program("client_talk"), str(port),
                       "queues" if queues else "no-queues"]
            with subprocess.Popen(command, stdin=subprocess.DEVNULL, text=True,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as ours:
                with contextlib.ExitStack() as at_exit:
                    at_exit.callback(ours.kill)
                    partner = support.Background(self.partner, store, queues)
                    output, _ = ours.communicate(timeout=support.DEADLINE)
                self.assertEqual((ours.returncode, output), (0, "all as expected\n"))
                partner.result()

    def partner(self, store, queues):
        store.set("python/value", "from python")
        self.assertEqual(store.get("cpp/value"), b"\0\xff\n" + b"x" * 100_000)
        self.assertEqual(store.get("cpp/empty"), b"")
        self.assertEqual(len(store.get("cpp/large")), 8 * 1024 * 1024)
        if queues:
            store.queue_push("to cpp", b"one")
            store.queue_push("to cpp", b"two")
            self.assertEqual(store.queue_pop("to python"), b"first")
            self.assertEqual(store.queue_pop("to python"), b"")
        store.barrier("meet", 2)
        prefixed = PrefixStore("outer", PrefixStore("inner", store))
        self.assertEqual(prefixed.get("k"), b"prefixed")
        prefixed.barrier("meet", 2)

    def test_with_pytorch_s_server(self):
        self.talk(support.torch_store(), queues=True)

    def test_with_pytorch_s_older_server_without_queues(self):
        self.talk(support.torch_store(use_libuv=False), queues=False)

    def test_with_our_server(self):
        self.talk(support.muster_store(), queues=True)


class Control(unittest.TestCase):
    @unittest.skipIf(IS_OLD, "the client speaks the dialect of PyTorch 2.1 and later")
    def test_musterctl_reads_and_writes_a_store_of_pytorch(self):
        with support.torch_store() as port:
            store = TCPStore("127.0.0.1", port, None, False, LONG)
            store.set("greeting", "hello")
            self.assertEqual(control(port, "get", "greeting").stdout.strip(), "hello")
            self.assertEqual(control(port, "set", "answer", "42").returncode, 0)
            self.assertEqual(store.get("answer"), b"42")
            self.assertEqual(control(port, "add", "answer", "-2").stdout.strip(), "40")
            self.assertEqual(control(port, "keys").stdout.split(), ["answer", "greeting"])
            self.assertEqual(control(port, "delete", "answer").returncode, 0)
            self.assertEqual(control(port, "check", "answer").returncode, 1)

    @unittest.skipUnless(IS_OLD, "a newer server is understood")
    def test_a_server_of_an_old_pytorch_is_refused_in_a_sentence(self):
        # That server hangs on unknown words, so it must not be this process's own.
        serve = ("import torch.distributed as d; s = d.TCPStore('127.0.0.1', 0, None, True, "
                 "wait_for_workers=False); print(s.port, flush=True); input()")
        with subprocess.Popen([sys.executable, "-c", serve], stdin=subprocess.PIPE, text=True,
                              stdout=subprocess.PIPE) as server:
            with contextlib.ExitStack() as at_exit:
                at_exit.callback(server.kill)
                done = control(int(server.stdout.readline()), "get", "k", "--timeout", "2")
        self.assertEqual(done.returncode, 69, done.stderr)
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
