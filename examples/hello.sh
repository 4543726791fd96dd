#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A shell script as a worker: muster --nproc-per-node=4 examples/hello.sh
echo "hello from rank $RANK of $WORLD_SIZE: local rank $LOCAL_RANK, pid $$," \
  "store at $MASTER_ADDR:$MASTER_PORT, $# arguments"
