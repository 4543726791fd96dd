# SPDX-License-Identifier: Apache-2.0
"""fail.py record|plain: rank 1 raises; the others wait until they are stopped."""
import os
import signal
import sys


def main():
    if os.environ["RANK"] == "1":
        numbers = [1, 2, 3]
        raise ValueError(f"no use for {len(numbers)} numbers")
    signal.pause()


if __name__ == "__main__":
    if sys.argv[1] == "record":
        from torch.distributed.elastic.multiprocessing.errors import record
        main = record(main)
    main()
