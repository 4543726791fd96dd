// SPDX-License-Identifier: Apache-2.0
// Sends and receives whose peer completes its part and dies between two steps of this rank.
#include "base/clock.hpp"
#include "collective/communicator/async_queue.hpp"
#include "support/catch.hpp"

#include <atomic>
#include <memory>
#include <string>

namespace muster::collective {
namespace {

constexpr int kSender = 1;
constexpr int kSilent = 2;  // sends nothing before it dies

// Two pieces, which exist as soon as the sender has written them.
class TwoPieces final : public Transfer {
 public:
  TwoPieces(const std::atomic<bool>& written, int from) : written_(written), from_(from) {}

  [[nodiscard]] Result<Step> step() override {
    if (from_ == kSilent || !written_) {
      return Step::stuck;
    }
    return ++taken_ == 2 ? Step::done : Step::moved;
  }

 private:
  const std::atomic<bool>& written_;
  int from_;
  int taken_ = 0;
};

// The peers die, and the sender writes its last pieces, just before look() finds the deaths.
class DyingPeers final : public HostTransport {
 public:
  std::atomic<bool> may_die{false};

  [[nodiscard]] Result<std::unique_ptr<Transfer>> begin(const Request& request) override {
    return std::make_unique<TwoPieces>(written_, request.root);
  }

  [[nodiscard]] std::optional<Error> look(const Request& request) override {
    if (!may_die) {
      return std::nullopt;
    }
    written_ = true;
    return Error{.code = Errc::peer_failed, .rank = request.root};
  }

  void rest(int /*round*/) override { std::this_thread::yield(); }

  void wake() override {}

  [[nodiscard]] Result<std::shared_ptr<Pending>> start(const Request& /*request*/) override {
    return nullptr;
  }

  void abort(const Error& /*why*/) override {}

  [[nodiscard]] Result<void*> alloc(std::size_t /*bytes*/) override { return nullptr; }

  [[nodiscard]] Result<void> free(void* /*memory*/) override { return {}; }

 private:
  std::atomic<bool> written_{false};
};

Request receive_from(int rank, std::uint64_t seq) {
  return {.kind = Kind::recv, .root = rank, .seq = seq};
}

Errc code_of(const Result<void>& result) {
  return result ? Errc::ok : result.error().code;
}

TEST_CASE("transfer: pieces that arrived before the peer died complete it") {
  DyingPeers transport;
  transport.may_die = true;
  const auto receive = [&transport](int rank) {
    const Request request = receive_from(rank, 1);
    auto transfer = transport.begin(request);
    return code_of(finish(transport, **transfer, request));
  };
  CHECK(receive(kSender) == Errc::ok);
  CHECK(receive(kSilent) == Errc::peer_failed);
}

TEST_CASE("transfer: in the queue too, with all earlier ones of its pair") {
  DyingPeers transport;
  const auto recorder = FlightRecorder::open({});
  REQUIRE(recorder.has_value());
  TransferQueue queue(transport, **recorder);
  std::vector<std::shared_ptr<HostPending>> pending;
  for (const Request& request :
       {receive_from(kSender, 1), receive_from(kSender, 2), receive_from(kSilent, 1)}) {
    pending.push_back(std::make_shared<HostPending>());
    queue.add({.request = request,
               .timeout = std::chrono::seconds(60),
               .ticket = (*recorder)->queued(request, steady_now()),
               .pending = pending.back()});
  }
  transport.may_die = true;
  std::vector<Errc> codes;
  for (const auto& one : pending) {
    codes.push_back(code_of(one->wait(Duration::zero())));
  }
  CHECK(codes == std::vector{Errc::ok, Errc::ok, Errc::peer_failed});
}

}  // namespace
}  // namespace muster::collective
