// SPDX-License-Identifier: Apache-2.0
// GradientSync with gradients on GPUs, over the strict fakes.
#include "nccl/unit/gpu_trainer.hpp"
#include "support/catch.hpp"

#include <semaphore>

namespace muster::testing {
namespace {

using collective::Errc;
using collective::Work;

TEST_CASE("gradients on GPUs: sums a bucket while the backward pass is still running") {
  run_on_gpus(2, [](Communicator& comm) {
    std::vector<Work> works;
    GradientSyncOptions options{.buckets = {.first = 64, .cap = 64}, .reorder = false};
    options.hook = [&works](Communicator& by, const GradientBucketView& bucket) {
      auto work = by.all_reduce(bucket.buffer, bucket.buffer, Op::avg, {.stream = bucket.stream});
      if (work) {
        works.push_back(*work);
      }
      return work;
    };
    std::binary_semaphore go_on{0};
    {
      Trainer trainer(comm, options);
      RANK_REQUIRE(trainer.sync.begin().has_value());
      trainer.write(3, 0);
      RANK_CHECK(trainer.sync.mark_ready(3, trainer.gpu.stream()).has_value());
      // The rest of the backward pass, which does not finish before the gate is opened.
      close_gate(trainer.gpu.cuda(), static_cast<CUstream>(trainer.gpu.stream()), go_on);
      RANK_REQUIRE(works.size() == 1);
      RANK_CHECK(works[0].wait(std::chrono::seconds(60)).has_value());
      for (const int id : {2, 1, 0}) {
        trainer.write(id, 0);
        RANK_CHECK(trainer.sync.mark_ready(id, trainer.gpu.stream()).has_value());
      }
      RANK_REQUIRE(works.size() == 4);
      RANK_CHECK(!works[1].done() && !works[3].done());
      const auto stats = trainer.sync.wait_stream(trainer.gpu.stream());
      RANK_CHECK(stats && stats->buckets == trainer.sync.plan().buckets.size());
      go_on.release();
      RANK_CHECK(trainer.is_average(0));
    }
  });
}

TEST_CASE("gradients on GPUs: an unused one is zeroed, on the stream of the others") {
  run_on_gpus(2, [](Communicator& comm) {
    Trainer trainer(comm, {.average = false, .has_unused = true, .reorder = false});
    trainer.backward(0);
    RANK_REQUIRE(trainer.sync.wait_stream(trainer.gpu.stream()).has_value());
    // Rank 1 does not use gradient 2, and no rank uses 1; both still contain sums of the previous
    // step.
    RANK_REQUIRE(trainer.sync.begin().has_value());
    for (const int id : kBackward) {
      const bool unused = id == 1 || (id == 2 && comm.rank() == 1);
      if (!unused) {
        trainer.write(id, 0);
      }
      RANK_CHECK((unused ? trainer.sync.mark_unused(id, trainer.gpu.stream())
                         : trainer.sync.mark_ready(id, trainer.gpu.stream()))
                     .has_value());
    }
    RANK_REQUIRE(trainer.sync.wait_stream(trainer.gpu.stream()).has_value());
    RANK_CHECK(trainer.read(1) == std::vector<float>(kCounts[1], 0));
    RANK_CHECK(trainer.read(2)[4] == value(0, 2, 4, 0));
    RANK_CHECK(trainer.read(3)[4] == value(0, 3, 4, 0) + value(1, 3, 4, 0));
    RANK_CHECK(!trainer.sync.used(1) && trainer.sync.used(2));
  });
}

TEST_CASE("gradients on GPUs: sums accumulated gradients, and zero() runs on the stream") {
  run_on_gpus(2, [](Communicator& comm) {
    Trainer trainer(comm, {.has_unused = true, .reorder = false});
    RANK_REQUIRE(trainer.sync.begin(false).has_value());
    for (const int id : kBackward) {
      trainer.write(id, 0);
      RANK_CHECK(trainer.sync.mark_ready(id, trainer.gpu.stream()).has_value());
    }
    RANK_REQUIRE(trainer.sync.wait_stream(trainer.gpu.stream()).has_value());
    RANK_REQUIRE(trainer.sync.begin().has_value());
    for (const int id : kBackward) {
      RANK_CHECK(trainer.sync.mark_unused(id, trainer.gpu.stream()).has_value());
    }
    RANK_REQUIRE(trainer.sync.wait_stream(trainer.gpu.stream()).has_value());
    RANK_CHECK(trainer.is_average(0));
    RANK_CHECK(trainer.sync.zero(trainer.gpu.stream()).has_value());
    for (const int id : kBackward) {
      RANK_CHECK(trainer.read(id) == std::vector<float>(kCounts[static_cast<std::size_t>(id)], 0));
    }
  });
}

TEST_CASE("gradients on GPUs: buckets are rebuilt after the first step and keep their values") {
  for (const bool host_waits : {false, true}) {
    run_on_gpus(2, [host_waits](Communicator& comm) {
      Trainer trainer(comm, {.buckets = {.first = 64, .cap = 64}});
      const std::vector<int> forward{0, 1, 2, 3};
      trainer.backward(0, comm.rank() == 0 ? forward : kBackward);
      const auto stats =
          host_waits ? trainer.sync.wait() : trainer.sync.wait_stream(trainer.gpu.stream());
      RANK_REQUIRE(stats.has_value());
      RANK_CHECK(stats->moved);
      RANK_CHECK(trainer.sync.plan().buckets[0].parameters == std::vector<int>{0});
      RANK_CHECK(trainer.is_average(0));
      trainer.backward(0, forward);
      const auto second = trainer.sync.wait_stream(trainer.gpu.stream());
      RANK_REQUIRE(second.has_value());
      RANK_CHECK(!second->moved);
      RANK_CHECK(trainer.is_average(0));
    });
  }
}

TEST_CASE("gradients on GPUs: after a failure they continue with their values") {
  run_on_gpus(2, [](Communicator& comm) {
    Trainer trainer(comm, {});
    RANK_REQUIRE(trainer.sync.begin().has_value());
    for (const int id : kBackward) {
      trainer.write(id, 0);
    }
    trainer.gpu.settle();
    auto again = broken_and_rebuilt(comm);
    RANK_REQUIRE(again.has_value());
    RANK_REQUIRE(trainer.sync.rebind(*again).has_value());
    for (const int id : kBackward) {
      RANK_CHECK(trainer.read(id) == trainer.values[static_cast<std::size_t>(id)]);
    }
    trainer.backward(0);
    RANK_REQUIRE(trainer.sync.wait_stream(trainer.gpu.stream()).has_value());
    RANK_CHECK(trainer.is_average(0));
    trainer.sync = GradientSync(*again);  // before the communicator is destroyed
  });
}

TEST_CASE("gradients on GPUs: with a subset of the ranks") {
  run_on_gpus(3, [](Communicator& comm) {
    auto part = comm.split(comm.rank() == 2 ? -1 : 0, 0);
    RANK_REQUIRE(part.has_value());
    if (!*part) {
      return;
    }
    Trainer trainer(**part, {});
    trainer.backward(0);
    RANK_REQUIRE(trainer.sync.wait_stream(trainer.gpu.stream()).has_value());
    RANK_CHECK(trainer.is_average(0));
  });
}

TEST_CASE("gradients on GPUs: unsupported calls are errors, and nothing is sent") {
  run_on_gpus(2, [](Communicator& comm) {
    Trainer trainer(comm, {});
    const Gpu other(comm.rank());
    RANK_REQUIRE(trainer.sync.begin().has_value());
    trainer.write(3, 0);
    RANK_CHECK(trainer.sync.mark_ready(3, trainer.gpu.stream()).has_value());
    const auto refused = trainer.sync.mark_ready(2, other.stream());
    RANK_REQUIRE(!refused.has_value());
    RANK_CHECK(refused.error().code == Errc::invalid_argument);
    RANK_CHECK(refused.error().text.find("'g2' was marked on a different stream") !=
               std::string::npos);
    // The remaining gradients can still be marked as usual.
    for (const int id : {2, 1, 0}) {
      trainer.write(id, 0);
      RANK_CHECK(trainer.sync.mark_ready(id, trainer.gpu.stream()).has_value());
    }
    RANK_CHECK(trainer.sync.wait_stream(trainer.gpu.stream()).has_value());
    RANK_CHECK(trainer.is_average(0));
  });
}

TEST_CASE("gradients on GPUs: finalize reports a rank that has its gradients on the host") {
  run_on_gpus(2, [](Communicator& comm) {
    GradientSync sync(comm, {.device = comm.rank() == 0 ? collective::kHost : 1});
    RANK_CHECK(sync.add("a", DType::f32, 10).has_value());
    const auto done = sync.finalize();
    RANK_REQUIRE(!done.has_value());
    RANK_CHECK(done.error().code == Errc::mismatch);
    RANK_CHECK(done.error().text.find(comm.rank() == 0 ? "on the host" : "on a GPU") !=
               std::string::npos);
  });
}

}  // namespace
}  // namespace muster::testing
