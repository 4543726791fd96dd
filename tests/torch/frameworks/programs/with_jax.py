# SPDX-License-Identifier: Apache-2.0
"""A typical JAX program: initializes JAX without arguments, and adds numbers of all processes. With
an argument, process 1 fails in the first attempt."""
import os
import sys

import jax

jax.distributed.initialize()

import numpy  # noqa: E402
from jax.experimental import multihost_utils  # noqa: E402

index = jax.process_index()
if len(sys.argv) > 1 and index == 1 and os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
    os._exit(3)
total = multihost_utils.process_allgather(numpy.array(index + 1)).sum()
print(f"process {index} of {jax.process_count()}: sum {total}, "
      f"devices {os.environ.get('JAX_LOCAL_DEVICE_IDS')}, "
      f"coordinator {os.environ['JAX_COORDINATOR_ADDRESS']}, "
      f"attempt {os.environ['TORCHELASTIC_RESTART_COUNT']}")
