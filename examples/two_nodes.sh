#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Runs the same command twice, as if on two machines. The two launchers form one job.
# examples/two_nodes.sh [PORT]
for _ in 1 2; do
  muster --nnodes=2 --nproc-per-node=2 --rdzv-backend=c10d \
    --rdzv-endpoint="localhost:${1:-29477}" "$(dirname "$0")/hello.sh" &
done
wait
