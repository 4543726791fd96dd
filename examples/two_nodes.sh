#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Two launchers on one machine form one job, as on two machines: the same command twice.
# examples/two_nodes.sh [PORT]
for _ in 1 2; do
  muster --nnodes=2 --nproc-per-node=2 --rdzv-backend=c10d \
    --rdzv-endpoint="localhost:${1:-29477}" "$(dirname "$0")/hello.sh" &
done
wait
