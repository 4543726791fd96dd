# SPDX-License-Identifier: Apache-2.0
"""Each attempt must find an empty store; the last rank fails in the first attempt."""
import os
import sys
from datetime import timedelta

from torch.distributed import TCPStore

rank, world_size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
attempt = int(os.environ["TORCHELASTIC_RESTART_COUNT"])
port = int(os.environ["MASTER_PORT"])
store = TCPStore(os.environ["MASTER_ADDR"], port, world_size, False, timedelta(seconds=60))
arrived = store.add("arrived", 1)
assert arrived <= world_size, f"{arrived} arrivals: the store of an earlier attempt"
store.set(f"rank{rank}", str(attempt))
for peer in range(world_size):
    assert int(store.get(f"rank{peer}")) == attempt
os.write(1, f"attempt {attempt} rank {rank} port {port}\n".encode())
store.add("left", 1)
if attempt == 0:
    if rank == world_size - 1:
        sys.exit(3)
    store.wait(["never"])
