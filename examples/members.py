#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A program that follows the members of its job, as an inference server would:

    muster --nproc-per-node=3 --max-restarts=1 examples/members.py

Rank 1 exits with an error in the first round. The other ranks are notified at once, shut down
cleanly and are restarted. Each rank reports its progress, which costs no system call.
"""
import os
import signal
import sys
import threading

from muster import worker


def serve(done):
    """A real server would answer requests here."""
    for step in range(1_000_000):
        worker.progress(step)
        if done.wait(0.01):
            return


def main():
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # rounds() reports when to stop, and why
    done = threading.Event()
    server = threading.Thread(target=serve, args=(done,))
    server.start()
    live = set()
    for news in worker.rounds(timeout=1):  # one second without news ends the example
        if isinstance(news, worker.Round):
            live = set(range(news.world_size))
            print(f"round {news.epoch}: I am rank {news.rank} of {sorted(live)}", flush=True)
            worker.ready()
            if news.epoch == 1 and news.rank == 1:
                worker.unhealthy("about to fail, for the example")
                os._exit(3)
        elif isinstance(news, worker.Gone):
            live -= set(range(news.rank, news.rank + news.count))
            print(f"round {news.epoch}: {sorted(live)} are left: {news.why}", flush=True)
        else:
            print(f"stopping within {news.seconds:g} s: {news.why}", flush=True)
            break
    done.set()
    server.join()


if __name__ == "__main__":
    sys.exit(main())
