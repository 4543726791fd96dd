#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""scripts/gpu-check without a GPU: prints what is missing, on one line, and exits with 77. Usage:
without_gpu_test.py COMMAND…"""
import os
import subprocess
import sys

# A nonexistent driver simulates a machine without one, so that this runs on every machine.
environment = {**os.environ, 'MUSTER_CUDA_LIBRARY': '/nowhere/libcuda.so.1'}
done = subprocess.run(sys.argv[1:], env=environment, capture_output=True, text=True, timeout=300,
                      check=False)
first = "gpu-check: nothing was checked: no GPU can be used: cannot load NVIDIA's driver"
if done.returncode != 77 or done.stdout or not done.stderr.startswith(first):
    sys.exit(f'exit code {done.returncode}, wanted 77\n{done.stdout}{done.stderr}')
