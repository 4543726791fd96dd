// SPDX-License-Identifier: Apache-2.0
// GradientSync on GPUs with a different wire type or with gradients in the caller's memory, over
// the strict fakes: memory uses that streams and events do not order terminate the program.
#include "nccl/unit/gpu_trainer.hpp"
#include "support/catch.hpp"

#include <optional>

namespace muster::testing {
namespace {

int module_loads() {
  return static_cast<int>(
      extra_of<unsigned long (*)()>(MUSTER_FAKE_CUDA, "muster_fake_module_loads")());
}

// With every combination of memory, types and waiting.
void run_steps(Communicator& comm, const GradientSyncOptions& options, bool host_waits) {
  Trainer trainer(comm, options);
  RANK_CHECK(comm.barrier().has_value());  // all ranks have loaded what they need
  const int loads = module_loads();
  for (int step = 0; step < 4; ++step) {
    trainer.backward(step);
    const auto stats = trainer.wait(host_waits);
    RANK_REQUIRE(stats.has_value());
    RANK_CHECK(trainer.is_average(step));
  }
  RANK_CHECK(comm.barrier().has_value());
  RANK_CHECK(module_loads() == loads);
}

TEST_CASE("gradients on GPUs: a wire type, the caller's memory, and both, with either kind of wait",
          "[slow]") {
  const std::optional<DType> as_they_are;
  for (const auto wire : {as_they_are, std::optional(DType::bf16), std::optional(DType::f16)}) {
    for (const bool owns : {true, false}) {
      for (const bool host_waits : {false, true}) {
        for (const std::size_t cap : {std::size_t{64}, std::size_t{1} << 20}) {
          run_on_gpus(2, [=](Communicator& comm) {
            run_steps(comm,
                      {.buckets = {.first = cap, .cap = cap}, .wire = wire, .owns_memory = owns},
                      host_waits);
          });
        }
      }
    }
  }
}

TEST_CASE("gradients on GPUs: a hook receives the wire type, and its sums are widened") {
  for (const bool host_waits : {false, true}) {
    run_on_gpus(2, [host_waits](Communicator& comm) {
      GradientSyncOptions options{.buckets = {.first = 64, .cap = 64}, .wire = DType::bf16};
      options.hook = [](Communicator& by, const GradientBucketView& bucket) {
        RANK_CHECK(bucket.buffer.dtype == DType::bf16);
        return by.all_reduce(bucket.buffer, bucket.buffer, Op::avg, {.stream = bucket.stream});
      };
      run_steps(comm, options, host_waits);
    });
  }
}

TEST_CASE("gradients on GPUs: memory and kernels are freed with the last GradientSync") {
  run_on_gpus(2, [](Communicator& comm) {
    std::vector<const void*> sent;
    GradientSyncOptions options{.buckets = {.first = 64, .cap = 64}, .wire = DType::f16};
    options.hook = [&sent](Communicator& by, const GradientBucketView& bucket) {
      sent.push_back(bucket.buffer.data);
      return by.all_reduce(bucket.buffer, bucket.buffer, Op::avg, {.stream = bucket.stream});
    };
    Trainer trainer(comm, options);
    trainer.backward(0);
    RANK_REQUIRE(trainer.wait(true).has_value());
    sent.push_back(*trainer.sync.grad(0));
    trainer.sync = GradientSync(comm);
    const auto bytes_from =
        extra_of<std::size_t (*)(const void*)>(MUSTER_FAKE_CUDA, "muster_fake_bytes_from");
    for (const void* memory : sent) {
      RANK_CHECK(bytes_from(memory) == 0);
    }
  });
  CHECK(extra_of<int (*)()>(MUSTER_FAKE_CUDA, "muster_fake_modules")() == 0);
}

TEST_CASE("gradients on GPUs: f32 is rounded once, to the wire type") {
  run_on_gpus(2, [](Communicator& comm) {
    Trainer trainer(comm, {.average = false, .wire = DType::bf16});
    RANK_REQUIRE(trainer.sync.begin().has_value());
    for (int id = 0; id < kGradients; ++id) {
      auto& mine = trainer.values[static_cast<std::size_t>(id)];
      mine.assign(mine.size(), comm.rank() == 0 ? 1.00390625F + 0.001F : 0.0F);  // 1 + 2^-8, more
      trainer.gpu.upload(trainer.where(id), mine);
      RANK_CHECK(trainer.sync.mark_ready(id, trainer.gpu.stream()).has_value());
    }
    RANK_REQUIRE(trainer.wait(false).has_value());
    const auto have = trainer.gpu.download(trainer.where(1), kCounts[1]);
    RANK_CHECK(have == std::vector<float>(kCounts[1], 1.0078125F));  // 1 + 2^-7
  });
}

TEST_CASE("gradients on GPUs: unused gradients stay unchanged in the caller's memory") {
  for (const bool host_waits : {false, true}) {
    run_on_gpus(2, [host_waits](Communicator& comm) {
      Trainer trainer(comm, {.wire = DType::f16, .owns_memory = false, .has_unused = true});
      trainer.backward(0);
      RANK_REQUIRE(trainer.wait(host_waits).has_value());
      // No rank uses 1, and rank 1 does not use 2.
      trainer.gpu.settle();
      RANK_REQUIRE(trainer.sync.begin().has_value());
      for (const int id : {3, 2, 1, 0}) {
        const bool unused = id == 1 || (id == 2 && comm.rank() == 1);
        if (!unused) {
          trainer.write(id, 1);
        }
        RANK_CHECK((unused ? trainer.sync.mark_unused(id, trainer.gpu.stream())
                           : trainer.sync.mark_ready(id, trainer.gpu.stream()))
                       .has_value());
      }
      RANK_REQUIRE(trainer.wait(host_waits).has_value());
      const auto at = [&](int id) { return trainer.gpu.download(trainer.where(id), 5)[4]; };
      RANK_CHECK(at(0) == average(0, 4, 1));
      RANK_CHECK(at(1) == average(1, 4, 0));
      RANK_CHECK(at(2) == value(0, 2, 4, 1) / 2);
    });
  }
}

TEST_CASE("gradients on GPUs: with a wire type they continue after a failure") {
  for (const bool owns : {true, false}) {
    run_on_gpus(2, [owns](Communicator& comm) {
      Trainer trainer(comm, {.wire = DType::bf16, .owns_memory = owns});
      RANK_REQUIRE(trainer.sync.begin().has_value());
      trainer.write(3, 0);
      RANK_CHECK(trainer.sync.mark_ready(3, trainer.gpu.stream()).has_value());
      trainer.gpu.settle();
      auto again = broken_and_rebuilt(comm);
      RANK_REQUIRE(again.has_value());
      RANK_REQUIRE(trainer.sync.rebind(*again).has_value());
      trainer.backward(2);
      RANK_REQUIRE(trainer.wait(false).has_value());
      RANK_CHECK(trainer.is_average(2));
      trainer.sync = GradientSync(*again);  // before the communicator is destroyed
    });
  }
}

TEST_CASE("gradients on GPUs: destruction waits until the GPU is done") {
  for (const bool ends : {false, true}) {
    run_on_gpus(2, [ends](Communicator& comm) {
      const Gpu outer(comm.rank());
      Trainer trainer(comm, {.wire = DType::bf16, .owns_memory = false});
      trainer.gpu.settle();
      RANK_REQUIRE(trainer.sync.begin().has_value());
      for (const int id : ends ? std::vector{3, 2, 1, 0} : std::vector{3, 2}) {
        RANK_CHECK(trainer.sync.mark_ready(id, trainer.gpu.stream()).has_value());
      }
      if (ends) {
        RANK_CHECK(trainer.sync.wait_stream(outer.stream()).has_value());
      }
      trainer.sync = GradientSync(comm);  // frees the buckets; the fake checks that they are unused
      trainer.gpu.settle();
      outer.settle();
    });
  }
}

}  // namespace
}  // namespace muster::testing
