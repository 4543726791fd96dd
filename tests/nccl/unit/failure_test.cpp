// SPDX-License-Identifier: Apache-2.0
// Failures: ranks that do not arrive, hang, fail or abort. Every wait ends with an error message,
// and a new epoch works again. Ranks are threads; tests/nccl/gpu covers killed and stopped
// processes.
#include "nccl/unit/fakes.hpp"
#include "support/catch.hpp"

#include <mutex>

namespace muster::testing {
namespace {

using collective::Errc;
using collective::Error;

// One sum of one element on the communicator. Returns its error, if any.
std::optional<Error> sum(nccl::NcclCommunicator& communicator, int device, Duration timeout) {
  DeviceMemory memory(device, 4);
  memory.upload(std::vector<std::byte>(4));
  Request what = request(Kind::all_reduce, DType::f32, 1, device, memory);
  what.deadline += timeout - std::chrono::seconds(30);
  const auto work = communicator.start(what);
  if (!work) {
    return work.error();
  }
  // Errors are returned only once the GPU no longer uses the memory, which is freed here
  // immediately.
  const auto done = (*work)->wait(Duration::zero());
  return done ? std::nullopt : std::optional(done.error());
}

// The result of `sums` operations on each rank of a two-rank communicator.
std::array<std::optional<Error>, 2> run_two(
    int sums, Duration timeout, const std::array<collective::PeerWatch*, 2>& peers = {}) {
  LocalStore store;
  std::array<std::optional<Error>, 2> ended;
  on_ranks(2, [&](int rank) {
    const auto at = static_cast<std::size_t>(rank);
    auto made = join({.store = store, .rank = rank, .size = 2, .peers = peers[at]});
    if (!made) {
      ended[at] = made.error();
    }
    for (int i = 0; i < sums && !ended[at]; ++i) {
      ended[at] = sum(**made, rank, timeout);
    }
  });
  return ended;
}

bool says(const std::optional<Error>& error, std::string_view text) {
  return error && error->text.find(text) != std::string::npos;
}

class Peers final : public collective::PeerWatch {
 public:
  [[nodiscard]] std::optional<Error> failure() const override {
    const std::scoped_lock lock(mutex_);
    return known_;
  }

  void report(const Error& error) override {
    const std::scoped_lock lock(mutex_);
    reported.push_back(error);
  }

  void learn(Error error) {
    const std::scoped_lock lock(mutex_);
    known_ = std::move(error);
  }

  std::vector<Error> reported;

 private:
  mutable std::mutex mutex_;
  std::optional<Error> known_;
};

TEST_CASE("an operation that hangs fails on all ranks, and a new epoch works") {
  {
    const Faults hang("hang_at=2@1");
    const auto ended = run_two(3, std::chrono::milliseconds(200));
    REQUIRE(ended[0]);
    REQUIRE(ended[1]);
    // One rank times out first; the other one sees that as the failure of its peer.
    const bool timed_out = ended[0]->code == Errc::timeout || ended[1]->code == Errc::timeout;
    CHECK(timed_out);
    CHECK(
        (says(ended[0], "all_reduce #1 sum f32[1]") || says(ended[1], "all_reduce #1 sum f32[1]")));
  }
  const auto again = run_two(3, std::chrono::seconds(20));
  CHECK_FALSE(again[0]);
  CHECK_FALSE(again[1]);
}

TEST_CASE("an asynchronous error names the rank, the operation and NCCL's message", "[slow]") {
  const Faults broken("async_error_at=1:2@0 blind@1");
  Peers peers;
  const auto ended = run_two(1, std::chrono::milliseconds(700), {&peers, nullptr});
  REQUIRE(ended[0]);
  CHECK(ended[0]->code == Errc::nccl);
  CHECK(ended[0]->native == ncclSystemError);
  CHECK(says(ended[0], "rank 0 of 2, 'world', epoch 0"));
  CHECK(says(ended[0], "unhandled system error"));
  CHECK(says(ended[0], "NCCL last reported: fake: a network error"));
  CHECK(says(ended[0], "NCCL 2."));
  CHECK(says(ended[0], "CUDA driver 13.0"));
  CHECK(peers.reported.size() == 1);
  CHECK(ended[1]->code == Errc::timeout);
}

TEST_CASE("a peer that disappears is peer_failed") {
  const Faults broken("async_error_at=1:3@1");
  const auto ended = run_two(1, std::chrono::seconds(20));
  REQUIRE(ended[0]);
  CHECK(ended[0]->code == Errc::peer_failed);
  CHECK(ended[0]->native == ncclRemoteError);
  CHECK(says(ended[0], "remote process exited"));
}

TEST_CASE("a failure that peers know of ends an operation at once") {
  LocalStore store;
  Peers peers;
  std::array<std::optional<Error>, 2> ended;
  on_ranks(2, [&](int rank) {
    const Faults none("");
    auto made =
        join({.store = store, .rank = rank, .size = 2, .peers = rank == 0 ? &peers : nullptr});
    if (rank == 0) {
      peers.learn({.code = Errc::peer_failed, .rank = 1, .text = "rank 1 was killed"});
      ended[0] = sum(**made, 0, std::chrono::seconds(20));
    }
  });
  REQUIRE(ended[0]);
  CHECK(ended[0]->rank == 1);
  CHECK(ended[0]->text == "rank 1 was killed");
}

TEST_CASE("an abort from another thread ends a wait, permanently") {
  LocalStore store;
  on_ranks(1, [&](int) {
    const Faults hang("hang_at=1");
    auto made = join({.store = store});
    REQUIRE(made);
    std::thread other([&] { (*made)->abort({.code = Errc::aborted, .text = "enough"}); });
    const auto ended = sum(**made, 0, std::chrono::seconds(20));
    other.join();
    CHECK(says(ended, "enough"));
    (*made)->abort({.code = Errc::aborted, .text = "more than enough"});
    CHECK(says(sum(**made, 0, std::chrono::seconds(20)), "enough"));
  });
}

TEST_CASE("names ranks that do not arrive within the startup timeout", "[slow]") {
  LocalStore store;
  const Duration soon = std::chrono::milliseconds(100);
  const auto root = join({.store = store, .rank = 0, .size = 3, .init_timeout = soon});
  REQUIRE_FALSE(root);
  CHECK(root.error().code == Errc::timeout);
  CHECK(root.error().rank == 1);
  CHECK(says(root.error(), "3 ranks start NCCL, but ranks 1, 2 did not arrive"));
  LocalStore empty;
  const auto other = join({.store = empty, .rank = 1, .size = 2, .init_timeout = soon});
  REQUIRE_FALSE(other);
  CHECK(other.error().rank == 0);
  CHECK(says(other.error(), "rank 0 did not publish NCCL's unique id"));
}

TEST_CASE("a startup that hangs or fails inside NCCL ends in time") {
  LocalStore store;
  {
    const Faults hang("init_hangs");
    const auto made = join({.store = store, .init_timeout = std::chrono::milliseconds(100)});
    REQUIRE_FALSE(made);
    CHECK(made.error().code == Errc::timeout);
    CHECK(says(made.error(), "ncclCommInitRankConfig"));
  }
  const Faults broken("init_error=3");
  const auto made = join({.store = store, .epoch = 1});
  REQUIRE_FALSE(made);
  CHECK(made.error().native == ncclInternalError);
}

TEST_CASE("ranks that call different operations get an error if checks are enabled") {
  struct Case {
    void (*change)(Request&);
    const char* text;
  };

  const std::array kCases = {
      Case{[](Request& what) { what.count = 2; }, "rank 1 calls all_reduce #1 sum f32[2]"},
      Case{[](Request& what) { what.dtype = DType::i32; }, "rank 1 calls all_reduce #1 sum i32[1]"},
      Case{[](Request& what) { what.op = Op::max; }, "rank 1 calls all_reduce #1 max f32[1]"},
      Case{[](Request& what) { what.kind = Kind::broadcast; }, "rank 1 calls broadcast #1"},
      Case{[](Request& what) { what.seq = 2; }, "rank 1 calls all_reduce #2"}};
  std::uint64_t epoch = 0;
  for (const auto& one : kCases) {
    LocalStore store;
    std::array<std::optional<Error>, 2> ended;
    ++epoch;
    on_ranks(2, [&](int rank) {
      auto made =
          join({.store = store, .rank = rank, .size = 2, .epoch = epoch, .check_calls = true});
      DeviceMemory memory(rank, 8);
      memory.upload(std::vector<std::byte>(8));
      Request what = request(Kind::all_reduce, DType::f32, 1, rank, memory);
      const auto same = (*made)->start(what);
      if (!same || !(*same)->wait(Duration::zero())) {
        return;
      }
      if (rank == 1) {
        one.change(what);
      }
      const auto work = (*made)->start(what);
      ended[static_cast<std::size_t>(rank)] = work ? std::nullopt : std::optional(work.error());
    });
    CAPTURE(one.text, ended[0] ? ended[0]->text : "", ended[1] ? ended[1]->text : "");
    // The second rank to notice may see the first rank's abort instead.
    CHECK((says(ended[0], one.text) || says(ended[1], one.text)));
    CHECK(ended[0]);
    CHECK(ended[1]);
  }
}

TEST_CASE("an operation that outlives its communicator still returns its result") {
  LocalStore store;
  auto made = join({.store = store});
  DeviceMemory memory(0, 4);
  Request what = request(Kind::all_reduce, DType::f32, 1, 0, memory);
  const auto work = (*made)->start(what);
  made->reset();
  CHECK((*work)->done());
  CHECK((*work)->wait(Duration::zero()));
  CHECK((*work)->wait_stream(nullptr));
}

TEST_CASE("progress: each operation starts after the previous one has completed") {
  class Recorder final : public collective::Progress {
   public:
    void started(const Request& request) override { add("start", request); }

    void completed(const Request& request) override { add("end", request); }

    std::vector<std::string> seen;

   private:
    void add(const char* word, const Request& request) {
      seen.push_back(word + std::to_string(request.seq));
    }
  };

  Recorder recorder;
  LocalStore store;
  {
    auto made = join({.store = store, .progress = &recorder});
    DeviceMemory memory(0, 4);
    Request what = request(Kind::all_reduce, DType::f32, 1, 0, memory);
    for (what.seq = 1; what.seq <= 3; ++what.seq) {
      REQUIRE((*made)->start(what));
    }
    made->reset();
  }
  CHECK(recorder.seen ==
        std::vector<std::string>{"start1", "end1", "start2", "end2", "start3", "end3"});
}

TEST_CASE("two ranks on one GPU fail with NCCL's message") {
  LocalStore store;
  std::array<std::string, 2> text;
  on_ranks(2, [&](int rank) {
    const nccl::Speaker speaker{"world", rank, 2, 0};
    const nccl::Setup setup{
        fake_nccl(), *nccl::GpuDevice::open(fake_driver(), 0), speaker, nullptr};
    const auto made = nccl::NcclCommunicator::create(setup,
                                                     {&store, "x/", speaker, "here", {}},
                                                     {.init_timeout = std::chrono::seconds(20)},
                                                     nullptr);
    text[static_cast<std::size_t>(rank)] = made ? "" : made.error().text;
  });
  CHECK(text[0].find("Duplicate GPU detected") != std::string::npos);
  CHECK(text[1].find("Duplicate GPU detected") != std::string::npos);
}

TEST_CASE("different versions of NCCL fail on every rank before anything is started") {
  auto other = std::make_shared<nccl::NcclLibrary>(*fake_nccl());
  other->version = 23007;
  LocalStore store;
  std::array<std::optional<Error>, 2> ended;
  on_ranks(2, [&](int rank) {
    const auto made =
        join({.store = store, .rank = rank, .size = 2, .library = rank == 0 ? fake_nccl() : other});
    ended[static_cast<std::size_t>(rank)] = made ? std::nullopt : std::optional(made.error());
  });
  for (const auto& error : ended) {
    REQUIRE(error);
    CHECK(error->code == Errc::mismatch);
    CHECK(says(error, "rank 0 has 2.28.9"));
    CHECK(says(error, "rank 1 has 2.30.7"));
  }
}

}  // namespace
}  // namespace muster::testing
