/* SPDX-License-Identifier: Apache-2.0
 * A worker needs no PyTorch and no library: it reads its rank from the environment.
 *     cc -o hello examples/hello.c && muster --nproc-per-node=4 ./hello
 */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static const char* variable(const char* name) {
  const char* value = getenv(name);
  return value ? value : "(unset)";
}

int main(int argc, char** argv) {
  printf("hello from rank %s of %s: local rank %s, pid %ld, store at %s:%s, %d arguments\n",
         variable("RANK"),
         variable("WORLD_SIZE"),
         variable("LOCAL_RANK"),
         (long)getpid(),
         variable("MASTER_ADDR"),
         variable("MASTER_PORT"),
         argc - 1);
  for (int i = 1; i < argc; i++) {
    printf("  argument %d: %s\n", i, argv[i]);
  }
  return 0;
}
