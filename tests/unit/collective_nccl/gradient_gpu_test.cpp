// SPDX-License-Identifier: Apache-2.0
// GradientSync with gradients on GPUs, over the strict fakes.
#include "collective/gradient_sync.hpp"
#include "support/catch.hpp"
#include "unit/collective_nccl/gpu_world.hpp"

#include <array>
#include <semaphore>

namespace muster::testing {
namespace {

using collective::Errc;
using collective::GradientBucketView;
using collective::GradientStats;
using collective::GradientSync;
using collective::GradientSyncOptions;
using collective::Result;
using collective::Work;

constexpr std::array<std::size_t, 4> kCounts{5, 4000, 33, 700};
constexpr int kGradients = 4;
const std::vector<int> kBackward{3, 2, 1, 0};

// Exact in f32, also their sums and halves.
float value(int rank, int id, std::size_t i) {
  return static_cast<float>(64 * id + 2 * static_cast<int>(i % 13) + (rank + 1) * 1000);
}

// A rank with its gradients and what goes into them.
struct Trainer {
  Communicator& comm;
  Gpu gpu;
  GradientSync sync;
  std::vector<std::vector<float>> values;

  Trainer(Communicator& of, GradientSyncOptions options)
      : comm(of), gpu(of.rank()), sync(of, on(of.rank(), std::move(options))) {
    for (int id = 0; id < kGradients; ++id) {
      const std::size_t count = kCounts[static_cast<std::size_t>(id)];
      auto& own = values.emplace_back();
      for (std::size_t i = 0; i < count; ++i) {
        own.push_back(value(comm.rank(), id, i));
      }
      RANK_CHECK(sync.add("g" + std::to_string(id), DType::f32, count).has_value());
    }
  }

  static GradientSyncOptions on(int device, GradientSyncOptions options) {
    options.device = device;
    return options;
  }

  void write(int id) { gpu.upload(*sync.grad(id), values[static_cast<std::size_t>(id)]); }

  [[nodiscard]] std::vector<float> read(int id) const {
    return gpu.download(*sync.grad(id), kCounts[static_cast<std::size_t>(id)]);
  }

  // Up to the wait, without one.
  void backward(const std::vector<int>& order) {
    RANK_REQUIRE(sync.begin().has_value());
    for (const int id : order) {
      write(id);
      RANK_CHECK(sync.mark_ready(id, gpu.stream()).has_value());
    }
  }

  // Whether every gradient is the average of what two ranks wrote.
  [[nodiscard]] bool is_average() const {
    for (int id = 0; id < kGradients; ++id) {
      const auto have = read(id);
      for (std::size_t i = 0; i < have.size(); ++i) {
        if (have[i] != (value(0, id, i) + value(1, id, i)) / 2) {
          return false;
        }
      }
    }
    return true;
  }
};

TEST_CASE("gradients on GPUs: streams and events order all, without a wait of the host") {
  for (const std::size_t cap : {std::size_t{64}, std::size_t{1} << 20}) {
    run_on_gpus(2, [cap](Communicator& comm) {
      Trainer trainer(comm, {.buckets = {.first = cap, .cap = cap}, .reorder = false});
      RANK_REQUIRE(trainer.sync.finalize().has_value());
      for (int step = 0; step < 3; ++step) {
        trainer.backward(kBackward);
        const auto stats = trainer.sync.wait_stream(trainer.gpu.stream());
        RANK_REQUIRE(stats.has_value());
        RANK_CHECK(stats->buckets == trainer.sync.plan().buckets.size());
        RANK_CHECK(trainer.is_average());
      }
      trainer.backward(kBackward);
      RANK_CHECK(trainer.sync.wait().has_value());
      RANK_CHECK(trainer.is_average());
    });
  }
}

TEST_CASE("gradients on GPUs: a bucket is summed while the backward pass still runs") {
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
      RANK_REQUIRE(trainer.sync.finalize().has_value());
      RANK_REQUIRE(trainer.sync.begin().has_value());
      trainer.write(3);
      RANK_CHECK(trainer.sync.mark_ready(3, trainer.gpu.stream()).has_value());
      // The rest of the backward pass: it does not end before we say so.
      trainer.gpu.cuda().launch_host_function(
          static_cast<CUstream>(trainer.gpu.stream()),
          [](void* word) { static_cast<std::binary_semaphore*>(word)->acquire(); },
          &go_on);
      RANK_REQUIRE(works.size() == 1);
      RANK_CHECK(works[0].wait(std::chrono::seconds(60)).has_value());
      for (const int id : {2, 1, 0}) {
        trainer.write(id);
        RANK_CHECK(trainer.sync.mark_ready(id, trainer.gpu.stream()).has_value());
      }
      RANK_REQUIRE(works.size() == 4);
      RANK_CHECK(!works[1].done() && !works[3].done());
      RANK_CHECK(trainer.sync.wait_stream(trainer.gpu.stream()).has_value());
      go_on.release();
      RANK_CHECK(trainer.is_average());
    }
  });
}

TEST_CASE("gradients on GPUs: an unused one is zeros, written on the stream of the others") {
  run_on_gpus(2, [](Communicator& comm) {
    Trainer trainer(comm, {.average = false, .has_unused = true, .reorder = false});
    RANK_REQUIRE(trainer.sync.finalize().has_value());
    trainer.backward(kBackward);
    RANK_REQUIRE(trainer.sync.wait_stream(trainer.gpu.stream()).has_value());
    // Rank 1 does not use gradient 2, nobody uses 1; both hold sums of the step before.
    RANK_REQUIRE(trainer.sync.begin().has_value());
    for (const int id : kBackward) {
      const bool unused = id == 1 || (id == 2 && comm.rank() == 1);
      if (!unused) {
        trainer.write(id);
      }
      RANK_CHECK((unused ? trainer.sync.mark_unused(id, trainer.gpu.stream())
                         : trainer.sync.mark_ready(id, trainer.gpu.stream()))
                     .has_value());
    }
    RANK_REQUIRE(trainer.sync.wait_stream(trainer.gpu.stream()).has_value());
    RANK_CHECK(trainer.read(1) == std::vector<float>(kCounts[1], 0));
    RANK_CHECK(trainer.read(2)[4] == value(0, 2, 4));
    RANK_CHECK(trainer.read(3)[4] == value(0, 3, 4) + value(1, 3, 4));
    RANK_CHECK(!trainer.sync.used(1) && trainer.sync.used(2));
  });
}

TEST_CASE("gradients on GPUs: what accumulated is summed, and zero() zeros on the stream") {
  run_on_gpus(2, [](Communicator& comm) {
    Trainer trainer(comm, {.has_unused = true, .reorder = false});
    RANK_REQUIRE(trainer.sync.finalize().has_value());
    RANK_REQUIRE(trainer.sync.begin(false).has_value());
    for (const int id : kBackward) {
      trainer.write(id);
      RANK_CHECK(trainer.sync.mark_ready(id, trainer.gpu.stream()).has_value());
    }
    RANK_REQUIRE(trainer.sync.wait_stream(trainer.gpu.stream()).has_value());
    RANK_REQUIRE(trainer.sync.begin().has_value());
    for (const int id : kBackward) {
      RANK_CHECK(trainer.sync.mark_unused(id, trainer.gpu.stream()).has_value());
    }
    RANK_REQUIRE(trainer.sync.wait_stream(trainer.gpu.stream()).has_value());
    RANK_CHECK(trainer.is_average());
    RANK_CHECK(trainer.sync.zero(trainer.gpu.stream()).has_value());
    for (const int id : kBackward) {
      RANK_CHECK(trainer.read(id) == std::vector<float>(kCounts[static_cast<std::size_t>(id)], 0));
    }
  });
}

TEST_CASE("gradients on GPUs: buckets are made anew after the first step, with their values") {
  for (const bool host_waits : {false, true}) {
    run_on_gpus(2, [host_waits](Communicator& comm) {
      Trainer trainer(comm, {.buckets = {.first = 64, .cap = 64}});
      RANK_REQUIRE(trainer.sync.finalize().has_value());
      const std::vector<int> forward{0, 1, 2, 3};
      trainer.backward(comm.rank() == 0 ? forward : kBackward);
      const auto stats =
          host_waits ? trainer.sync.wait() : trainer.sync.wait_stream(trainer.gpu.stream());
      RANK_REQUIRE(stats.has_value());
      RANK_CHECK(stats->moved);
      RANK_CHECK(trainer.sync.plan().buckets[0].parameters == std::vector<int>{0});
      RANK_CHECK(trainer.is_average());
      trainer.backward(forward);
      const auto second = trainer.sync.wait_stream(trainer.gpu.stream());
      RANK_REQUIRE(second.has_value());
      RANK_CHECK(!second->moved);
      RANK_CHECK(trainer.is_average());
    });
  }
}

TEST_CASE("gradients on GPUs: after a failure they go on with their values") {
  run_on_gpus(2, [](Communicator& comm) {
    Trainer trainer(comm, {});
    RANK_REQUIRE(trainer.sync.finalize().has_value());
    RANK_REQUIRE(trainer.sync.begin().has_value());
    for (const int id : kBackward) {
      trainer.write(id);
    }
    trainer.gpu.settle();
    auto again = broken_and_rebuilt(comm);
    RANK_REQUIRE(again.has_value());
    RANK_REQUIRE(trainer.sync.rebind(*again).has_value());
    for (const int id : kBackward) {
      RANK_CHECK(trainer.read(id) == trainer.values[static_cast<std::size_t>(id)]);
    }
    trainer.backward(kBackward);
    RANK_REQUIRE(trainer.sync.wait_stream(trainer.gpu.stream()).has_value());
    RANK_CHECK(trainer.is_average());
    trainer.sync = GradientSync(*again);  // before the communicator ends
  });
}

TEST_CASE("gradients on GPUs: with a part of the ranks") {
  run_on_gpus(3, [](Communicator& comm) {
    auto part = comm.split(comm.rank() == 2 ? -1 : 0, 0);
    RANK_REQUIRE(part.has_value());
    if (!*part) {
      return;
    }
    Trainer trainer(**part, {});
    RANK_REQUIRE(trainer.sync.finalize().has_value());
    trainer.backward(kBackward);
    RANK_REQUIRE(trainer.sync.wait_stream(trainer.gpu.stream()).has_value());
    RANK_CHECK(trainer.is_average());
  });
}

TEST_CASE("gradients on GPUs: what cannot be done is words, and nothing is sent") {
  run_on_gpus(2, [](Communicator& comm) {
    Trainer trainer(comm, {});
    RANK_REQUIRE(trainer.sync.finalize().has_value());
    const Gpu other(comm.rank());
    RANK_REQUIRE(trainer.sync.begin().has_value());
    trainer.write(3);
    RANK_CHECK(trainer.sync.mark_ready(3, trainer.gpu.stream()).has_value());
    const auto refused = trainer.sync.mark_ready(2, other.stream());
    RANK_REQUIRE(!refused.has_value());
    RANK_CHECK(refused.error().code == Errc::invalid_argument);
    RANK_CHECK(refused.error().text.find("'g2' was marked on another stream") != std::string::npos);
    // It may still be marked as it should be.
    for (const int id : {2, 1, 0}) {
      trainer.write(id);
      RANK_CHECK(trainer.sync.mark_ready(id, trainer.gpu.stream()).has_value());
    }
    RANK_CHECK(trainer.sync.wait_stream(trainer.gpu.stream()).has_value());
    RANK_CHECK(trainer.is_average());
  });
}

TEST_CASE("gradients on GPUs: a rank that has them on the host is told by finalize") {
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
