// SPDX-License-Identifier: Apache-2.0
// The public interface with GPU buffers, over the strict fakes: alongside host operations, after a
// failure, in parts, several at once.
#include "base/environ.hpp"
#include "collective/nccl/nccl_transport.hpp"
#include "nccl/unit/gpu_world.hpp"
#include "support/catch.hpp"

#include <array>
#include <cstring>
#include <semaphore>

namespace muster::testing {
namespace {

using collective::Errc;
using collective::Result;
using collective::Work;
using collective::testing::error_of;

// The sum over `ranks` ranks of powers of two, on this communicator's GPU.
float sum_on_gpu(Communicator& comm, int device, float mine) {
  DeviceMemory memory(device, 8);
  memory.upload(elements(DType::f32, 2, [mine](std::size_t) { return mine; }));
  const Buffer buffer{memory.get(), 2, DType::f32, device};
  const auto done = error_of(comm.all_reduce(buffer, buffer, Op::sum));
  RANK_CHECK(done.text.empty());
  float out[3] = {};
  std::memcpy(out, memory.download().data(), 8);
  return out[0] == out[1] ? out[0] : -1;
}

TEST_CASE("public interface: operations on GPUs do not disturb those on the host") {
  run_on_gpus(2, [](Communicator& comm) {
    DeviceMemory memory(comm.rank(), 4);
    memory.upload(std::vector<std::byte>(4));
    const Buffer there{memory.get(), 1, DType::f32, comm.rank()};
    Work last;
    for (int round = 1; round <= 400; ++round) {
      float here = 1;
      // Does not wait for completion, so that the ranks diverge.
      const auto queued = comm.all_reduce(there, there, Op::sum);
      RANK_REQUIRE(queued.has_value());
      RANK_CHECK(queued->seq() == static_cast<std::uint64_t>(round));
      const auto done =
          comm.all_reduce(Buffer{&here, 1, DType::f32}, {&here, 1, DType::f32}, Op::sum);
      RANK_REQUIRE(done.has_value());
      RANK_CHECK(done->seq() == static_cast<std::uint64_t>(round));
      RANK_REQUIRE(here == 2);
      last = *queued;
    }
    RANK_CHECK(last.wait().has_value());
  });
}

TEST_CASE("public interface: a single rank needs no store for its GPU either") {
  use_fakes();
  auto comm = Communicator::create(nullptr, {});
  REQUIRE(comm.has_value());
  CHECK(sum_on_gpu(*comm, 0, 5) == 5);
}

TEST_CASE("public interface: after a failure, ranks of the new epoch sum on their GPUs") {
  run_on_gpus(3, [](Communicator& comm) {
    RANK_CHECK(sum_on_gpu(comm, comm.rank(), static_cast<float>(1 << comm.rank())) == 7);
    static_cast<void>(comm.barrier());  // all have their sums; its end may coincide with an abort
    comm.abort("the test's reason");
    DeviceMemory memory(comm.rank(), 4);
    const Buffer buffer{memory.get(), 1, DType::f32, comm.rank()};
    RANK_CHECK(error_of(comm.all_reduce(buffer, buffer, Op::sum)).code == Errc::aborted);
    if (comm.rank() == 2) {
      return;  // it does not return
    }
    collective::Membership next;
    next.rank = 1 - comm.rank();
    next.size = 2;
    next.epoch = 1;
    auto again = comm.rebuild(next);
    RANK_REQUIRE(again.has_value());
    RANK_CHECK(sum_on_gpu(*again, comm.rank(), static_cast<float>(1 << comm.rank())) == 3);
  });
}

TEST_CASE(
    "public interface: subsets of the ranks sum on their GPUs, also alongside the whole group") {
  run_on_gpus(4, [](Communicator& comm) {
    const auto mine = static_cast<float>(1 << comm.rank());
    RANK_CHECK(sum_on_gpu(comm, comm.rank(), mine) == 15);
    auto part = comm.split(comm.rank() % 2, -comm.rank());
    RANK_REQUIRE(part.has_value() && part->has_value());
    RANK_CHECK(sum_on_gpu(**part, comm.rank(), mine) == (comm.rank() % 2 == 0 ? 5 : 10));
    RANK_CHECK(sum_on_gpu(comm, comm.rank(), mine) == 15);
  });
}

TEST_CASE("public interface: two communicators with buffers on GPUs in one process") {
  run_on_gpus(2, [](Communicator& comm) {
    auto other = comm.split(0, -comm.rank());
    RANK_REQUIRE(other.has_value() && other->has_value());
    DeviceMemory first(comm.rank(), 4);
    DeviceMemory second(comm.rank(), 4);
    const auto upload = [&comm](DeviceMemory& to, double value) {
      to.upload(elements(DType::f32, 1, [&](std::size_t) { return value * (comm.rank() + 1); }));
    };
    for (int round = 0; round < 20; ++round) {
      upload(first, 1);
      upload(second, 100);
      const Buffer a{first.get(), 1, DType::f32, comm.rank()};
      const Buffer b{second.get(), 1, DType::f32, comm.rank()};
      const auto one = comm.all_reduce(a, a, Op::sum);
      const auto two = (*other)->all_reduce(b, b, Op::sum);
      RANK_REQUIRE(one.has_value() && two.has_value());
      RANK_CHECK(two->wait().has_value() && one->wait().has_value());
      const auto is = [](const DeviceMemory& memory, double value) {
        auto bytes = memory.download();
        return bytes == elements(DType::f32, 1, [value](std::size_t) { return value; });
      };
      RANK_CHECK(is(first, 3) && is(second, 300));
    }
  });
}

TEST_CASE("public interface: detects a GPU buffer that the caller has not declared as one") {
  run_on_gpus(2, [](Communicator& comm) {
    DeviceMemory memory(comm.rank(), 8);
    memory.upload(elements(DType::f32, 2, [](std::size_t i) { return 1.0 + double(i); }));
    const Buffer told{memory.get(), 2, DType::f32, comm.rank()};
    const Buffer untold{memory.get(), 2, DType::f32};
    const auto sum = comm.all_reduce(untold, untold, Op::sum);
    RANK_REQUIRE(sum.has_value());
    RANK_CHECK(sum->wait().has_value());
    RANK_CHECK(error_of(comm.broadcast(untold, 1)).text.empty());
    // Only one of the two may be declared.
    RANK_CHECK(error_of(comm.all_reduce(told, untold, Op::sum)).text.empty());
    RANK_CHECK(memory.download() ==
               elements(DType::f32, 2, [](std::size_t i) { return 4 + 4 * double(i); }));
    std::vector<float> host(2, 1.0F);
    const Buffer here{host.data(), 2, DType::f32};
    const auto mixed = comm.all_reduce(untold, here, Op::sum);
    RANK_REQUIRE(!mixed.has_value());
    RANK_CHECK(mixed.error().text.find("not on the same device") != std::string::npos);
    RANK_CHECK(error_of(comm.all_reduce(here, here, Op::sum)).text.empty());
    RANK_CHECK(host[1] == 2);
  });
}

TEST_CASE("public interface: with the backend nccl alone, host memory is rejected") {
  use_fakes();
  World{.ranks = 2, .backend = collective::Backend::nccl}.run([](Communicator& comm) {
    float data = 1;
    const Buffer here{&data, 1, DType::f32};
    const auto refused = comm.all_reduce(here, here, Op::sum);
    RANK_REQUIRE(!refused.has_value());
    RANK_CHECK(refused.error().code == Errc::unsupported);
    RANK_CHECK(refused.error().text.find("is in host memory") != std::string::npos);
    RANK_CHECK(sum_on_gpu(comm, comm.rank(), 1) == 2);
    RANK_CHECK(comm.barrier().has_value());
    auto part = comm.split(0, 0);
    RANK_REQUIRE(part.has_value() && part->has_value());
    RANK_CHECK(sum_on_gpu(**part, comm.rank(), 1) == 2);
  });
}

TEST_CASE("public interface: if ranks hang, the timeout error says where each rank is", "[slow]") {
  const Faults hang("hang_at=2");
  use_fakes();
  std::array<std::string, 2> texts;
  World{.ranks = 2, .timeout = std::chrono::milliseconds(500)}.run([&](Communicator& comm) {
    RANK_CHECK(sum_on_gpu(comm, comm.rank(), 1) == 2);
    DeviceMemory memory(comm.rank(), 4);
    const Buffer buffer{memory.get(), 1, DType::f32, comm.rank()};
    const auto error = error_of(comm.broadcast(buffer, 0));
    RANK_CHECK(error.code == Errc::timeout || error.code == Errc::peer_failed);
    texts[static_cast<std::size_t>(comm.rank())] = error.text;
  });
  // One rank is first, and the other rank receives what the first one found.
  const std::string& all = texts[0].find("on this host") != std::string::npos ? texts[0] : texts[1];
  CAPTURE(texts[0], texts[1]);
  CHECK(all.find("last completed all_reduce #1 sum f32[2] on a GPU, waiting in broadcast #2 f32[1] "
                 "root 0 on a GPU") != std::string::npos);
}

TEST_CASE(
    "public interface: if a rank misses the first operation, the error says where each rank is",
    "[slow]") {
  use_fakes();
  std::binary_semaphore over{0};
  World{.ranks = 2, .timeout = std::chrono::milliseconds(500)}.run([&](Communicator& comm) {
    if (comm.rank() == 1) {
      RANK_CHECK(comm.alloc(4, 1).has_value());  // reaches NCCL's startup, but no further
      over.acquire();
      return;
    }
    DeviceMemory memory(0, 4);
    const Buffer buffer{memory.get(), 1, DType::f32, 0};
    const auto error = error_of(comm.broadcast(buffer, 0));
    over.release();
    RANK_CHECK(error.code == Errc::timeout);
    RANK_CHECK(error.text.find("on this host: ") != std::string::npos);
  });
}

// Ranks with different environments: each creates its own transport.
struct Settings {
  std::array<std::vector<std::string>, 2> variables;

  // Each rank's error after `body`.
  std::array<collective::Error, 2> run(
      const std::function<collective::Error(collective::Transport&, int rank)>& body) const {
    use_fakes();
    LocalStore store;
    std::array<collective::Error, 2> errors;
    on_ranks(2, [&](int rank) {
      const auto at = static_cast<std::size_t>(rank);
      std::vector<std::string> environment = variables[at];
      environment.push_back(std::string("MUSTER_CUDA_LIBRARY=") + MUSTER_FAKE_CUDA);
      environment.push_back(std::string("MUSTER_NCCL_LIBRARY=") + MUSTER_FAKE_NCCL);
      std::vector<char*> block;
      for (auto& entry : environment) {
        block.push_back(entry.data());
      }
      block.push_back(nullptr);
      const Environ environ = Environ::from_block(block.data());
      collective::TransportContext context;
      context.store = &store;
      context.prefix = "settings/";
      context.name = "world";
      context.rank = rank;
      context.size = 2;
      context.device = rank;
      context.init_timeout = std::chrono::seconds(20);
      context.environ = &environ;
      auto made = collective::make_nccl_transport(context);
      errors[at] = made ? body(**made, rank) : made.error();
    });
    return errors;
  }
};

const std::string kCheck = "MUSTER_COLLECTIVE_NCCL_CHECK=1";
const std::string kRegister = "MUSTER_COLLECTIVE_NCCL_REGISTER=1";

collective::Error sum_of(collective::Transport& transport, int rank, std::uint64_t count) {
  DeviceMemory memory(rank, 8);
  memory.upload(std::vector<std::byte>(8));
  Request what = request(Kind::all_reduce, DType::f32, count, rank, memory);
  const auto work = transport.start(what);
  const auto done =
      work ? (*work)->wait(Duration::zero()) : Result<void>(std::unexpected(work.error()));
  return done ? collective::Error{} : done.error();
}

TEST_CASE("settings: NCCL_CHECK compares the calls of all ranks") {
  const Settings on{{{{kCheck}, {kCheck}}}};
  const auto same =
      on.run([](collective::Transport& transport, int rank) { return sum_of(transport, rank, 1); });
  CHECK(same[0].text.empty());
  CHECK(same[1].text.empty());
  const auto differ = on.run([](collective::Transport& transport, int rank) {
    return sum_of(transport, rank, rank == 0 ? 1 : 2);
  });
  const std::string all = differ[0].text + differ[1].text;
  CAPTURE(all);
  CHECK(all.find("rank 0 calls all_reduce #1 sum f32[1] root 0, rank 1 calls all_reduce #1 sum "
                 "f32[2]") != std::string::npos);
}

TEST_CASE("settings: with NCCL_REGISTER memory from alloc() is registered, without it nothing") {
  const auto registered = [] {
    return extra_of<int (*)()>(MUSTER_FAKE_NCCL, "muster_fake_registered")();
  };
  static_cast<void>(fake_nccl());
  for (const bool on : {false, true}) {
    const std::vector<std::string> environment =
        on ? std::vector{kRegister} : std::vector<std::string>{};
    std::array<int, 2> seen{-1, -1};
    const auto errors =
        Settings{{environment, environment}}.run([&](collective::Transport& transport, int rank) {
          const auto memory = transport.alloc(64);
          // Both ranks have the memory, and neither frees it before the other one has counted.
          auto error = memory ? sum_of(transport, rank, 1) : memory.error();
          seen[static_cast<std::size_t>(rank)] = registered();
          error = error.text.empty() ? sum_of(transport, rank, 1) : error;
          const auto freed = transport.free(*memory);
          return freed ? error : freed.error();
        });
    CHECK(errors[0].text.empty());
    CHECK(errors[1].text.empty());
    CHECK(seen == (on ? std::array{2, 2} : std::array{0, 0}));
    CHECK(registered() == 0);
  }
}

TEST_CASE("settings: ranks whose settings differ get an error before anything starts") {
  for (const auto& variable : {kCheck, kRegister}) {
    const auto errors = Settings{{{{}, {variable}}}}.run(
        [](collective::Transport& transport, int rank) { return sum_of(transport, rank, 1); });
    for (const auto& error : errors) {
      CAPTURE(variable, error.text);
      CHECK(error.code == Errc::mismatch);
      const std::string name = variable.substr(0, variable.find('='));
      CHECK(error.text.find("rank 0 has ") < error.text.find(name + " off"));
      CHECK(error.text.find("rank 1 has ") < error.text.find(name + " on"));
    }
  }
}

}  // namespace
}  // namespace muster::testing
