# SPDX-License-Identifier: Apache-2.0
"""Prints the rank and the arguments in one write."""
import os
import sys

os.write(1, f"rank {os.environ['RANK']} got {' '.join(sys.argv[1:])}\n".encode())
