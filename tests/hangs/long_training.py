#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that an hour of training causes no false alarm: with_py_spy long_training.py [MINUTES
[SEED]]. Runs training.py with 4 ranks under --hang-timeout=auto, once for each source of progress,
both at the same time, and prints all messages about hangs. Not part of scripts/test, because it
takes too long. The environment is that of test_hangs.py."""
import random
import sys
import tempfile

from test_hangs import TORCH, start

RANKS = 4


def main():
    minutes = sys.argv[1] if len(sys.argv) > 1 else "60"
    seed = sys.argv[2] if len(sys.argv) > 2 else str(random.randrange(10**6))
    print(f"{minutes} minutes, seed {seed}", flush=True)
    alarms = 0
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as two:
        jobs = {source: start(scratch, RANKS, ["--hang-timeout=auto"], "training.py", source,
                              minutes, seed, python=TORCH)
                for source, scratch in (("operations", one), ("steps", two))}
        for source, job in jobs.items():
            out, err = job.communicate()
            found = [line for line in err.splitlines() if "hang" in line]
            alarms += len(found)
            print(f"{source}: code {job.returncode}, {len(found)} lines about hangs; {out.strip()}",
                  *found, sep="\n", flush=True)
            if job.returncode:
                print(err)
                alarms += 1
    return 1 if alarms else 0


if __name__ == "__main__":
    sys.exit(main())
