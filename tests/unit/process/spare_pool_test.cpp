// SPDX-License-Identifier: Apache-2.0
#include "process/warm/spare_pool.hpp"

#include "process/warm/worker_message.hpp"
#include "support/catch.hpp"

#include <string>
#include <vector>

namespace muster {
namespace {

using Exit = SparePool::Exit;

TEST_CASE("spare pool: only a spare worker that is ready replaces a worker, and only once") {
  SparePool pool;
  CHECK(pool.missing() == 0);
  pool.keep(2);
  CHECK(pool.missing() == 2);
  pool.add(7);
  pool.add(8);
  CHECK(pool.missing() == 0);
  CHECK_FALSE(pool.take());
  pool.note_ready(8);
  pool.note_ready(9);  // not a spare worker
  CHECK(pool.take() == 8);
  CHECK_FALSE(pool.take());
  CHECK(pool.missing() == 1);
  CHECK(pool.note_exit(8) == Exit::unknown);
}

TEST_CASE("spare pool: after some exits in a row there are no more spare workers") {
  SparePool pool;
  pool.keep(1);
  for (pid_t pid = 1; pid < kSpareExitsMax; ++pid) {
    pool.add(pid);
    CHECK(pool.note_exit(pid) == Exit::replace);
  }
  pool.add(50);
  pool.note_ready(50);
  CHECK(pool.take() == 50);  // the program can have spare workers, so the count begins again
  for (pid_t pid = 1; pid < kSpareExitsMax; ++pid) {
    pool.add(pid);
    CHECK(pool.note_exit(pid) == Exit::replace);
  }
  pool.add(51);
  CHECK(pool.note_exit(51) == Exit::give_up);
  CHECK(pool.missing() == 0);
  pool.keep(1);
  CHECK(pool.missing() == 0);
}

TEST_CASE("spare pool: stopped spare workers are killed once, and are not used") {
  SparePool pool;
  pool.keep(2);
  pool.add(7);
  pool.note_ready(7);
  CHECK(pool.stop() == std::vector<pid_t>{7});
  CHECK(pool.stop().empty());
  CHECK(pool.missing() <= 0);
  CHECK_FALSE(pool.take());
  pool.keep(2);
  CHECK(pool.missing() == 2);
  CHECK(pool.note_exit(7) == Exit::expected);
}

TEST_CASE("spare pool: a spare worker receives only what changes") {
  ProcessSpec spare;
  spare.environment = {"A=1", "B=2", "MUSTER_SPARE=1"};
  ProcessSpec worker;
  worker.argv = {"python3"};
  worker.environment = {"A=1", "B=3", "RANK=0"};
  worker.cpus.add(1);
  worker.cpus.add(2);
  const std::string zero(1, '\0');
  CHECK(encode_change(spare, worker) ==
        "0" + zero + "1-2" + zero + zero + "B=3" + zero + "RANK=0" + zero + "MUSTER_SPARE" + zero);
}

}  // namespace
}  // namespace muster
