# SPDX-License-Identifier: Apache-2.0
"""meet.py PORT: two clients, perhaps of different versions, exchange a value and a count."""
import sys
from datetime import timedelta

import torch
from torch.distributed import TCPStore

store = TCPStore("127.0.0.1", int(sys.argv[1]), None, False, timedelta(seconds=60))
store.set("from " + torch.__version__.split(".")[0], torch.__version__)
if store.add("clients", 1) == 2:
    store.set("both", "here")
store.wait(["both"])
print(store.get("from 1").decode(), store.get("from 2").decode())
