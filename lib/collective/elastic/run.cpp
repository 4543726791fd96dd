// SPDX-License-Identifier: Apache-2.0
#include "collective/elastic/run.hpp"

#include "base/environ.hpp"
#include "collective/bootstrap/environment.hpp"
#include "collective/elastic/round_listener.hpp"
#include "collective/elastic/spare.hpp"
#include "collective/elastic/sync.hpp"
#include "worker/worker.hpp"

#include <atomic>
#include <chrono>
#include <utility>

#include <unistd.h>

namespace muster::collective::elastic {
namespace {

// Ranks arrive late if they are in a long step without communication. muster reports ranks that
// hang, so this limit only has to end at some time.
constexpr Duration kArrivalTimeout = std::chrono::hours(24);
// muster serves the store, so it responds unless its node is lost.
constexpr Duration kStoreTimeout = std::chrono::seconds(60);

// The error of a failed operation and the launcher's report of the lost rank race. A report that
// arrives within this time after an error explains the error. The report of a rank on another node
// is late if that node first has to reconnect to the job.
constexpr Duration kReportTimeout = std::chrono::seconds(3);
constexpr Duration kReportTimeoutOfNodes = std::chrono::seconds(15);

constexpr const char* kFailed = "the training function of this rank failed";

std::atomic<bool> is_used = false;  // run() has been called under muster

Result<Communicator> connect_to_round(const worker::Round& round,
                                      CommOptions options,
                                      const PeerWatch& watch) {
  const Environ environ = Environ::from_block(::environ);
  options.init_timeout = kArrivalTimeout;
  auto overridden = with_overrides(std::move(options), environ);
  MUSTER_RETURN_IF_ERROR(overridden);
  const WorkerPlace place{.membership = {round.rank,
                                         round.world_size,
                                         round.epoch,
                                         environ.get("TORCHELASTIC_RUN_ID").value_or("job")},
                          .store_host = round.store_address,
                          .store_port = static_cast<std::uint16_t>(round.store_port),
                          .agent_store = true};
  auto store = open_store(place, kStoreTimeout);
  MUSTER_RETURN_IF_ERROR(store);
  return Communicator::create(std::move(*store), place.membership, std::move(*overridden), &watch);
}

// The only round of a program that no launcher supervises. Without variables, it has one rank.
Result<Communicator> connect_alone(CommOptions options) {
  const Environ environ = Environ::from_block(::environ);
  return environ.get("WORLD_SIZE").value_or("1") == "1"
             ? Communicator::create(nullptr, {}, std::move(options))
             : Communicator::from_env(environ, std::move(options));
}

// `before` is called when this rank has the state. Returns what the function returns, and 0 only if
// it has returned 0 on all ranks.
template <class Before>
Result<int> call_function(State& state,
                          Training& training,
                          Communicator& communicator,
                          const Before& before) {
  MUSTER_RETURN_IF_ERROR(sync(state, communicator));
  MUSTER_RETURN_IF_ERROR(before());
  if (const int code = training.train(); code != 0) {
    return code;
  }
  MUSTER_RETURN_IF_ERROR(communicator.barrier({.timeout = kArrivalTimeout}));
  return 0;
}

// One call of run() under muster.
class Job {
 public:
  Job(State& state, Training& training, CommOptions options, RoundListener& listener)
      : state_(state), training_(training), options_(std::move(options)), listener_(listener) {}

  [[nodiscard]] Result<int> run();

 private:
  [[nodiscard]] Result<int> attempt(const worker::Round& round);
  [[nodiscard]] Result<Communicator*> connect(const worker::Round& round);
  // A reason, if the function has failed: destroying the communicator may wait for operations, and
  // this rank may be the first that notices the loss.
  void disconnect(const char* reason);
  [[nodiscard]] std::optional<worker::Round> next_round(const worker::Round& round);

  State& state_;
  Training& training_;
  CommOptions options_;
  RoundListener& listener_;
  Communicator* communicator_ = nullptr;
  bool is_entered_ = false;  // the function has been called
};

Result<int> Job::run() {
  auto round = listener_.wait_for_round(std::nullopt);
  Result<int> result = failure(Errc::system, "muster closed the connection to this worker");
  while (round) {
    result = attempt(*round);
    if (result && *result == 0) {
      disconnect(nullptr);
      return result;
    }
    round = next_round(*round);
  }
  disconnect(kFailed);
  return result;
}

Result<int> Job::attempt(const worker::Round& round) {
  const auto connected = connect(round);
  MUSTER_RETURN_IF_ERROR(connected);
  return call_function(state_, training_, **connected, [&]() -> Result<void> {
    MUSTER_RETURN_IF_ERROR(listener_.ready(round.epoch));
    if (std::exchange(is_entered_, true)) {
      state_.call_reset_functions();
    }
    return {};
  });
}

Result<Communicator*> Job::connect(const worker::Round& round) {
  listener_.enter(round.epoch);
  worker::continue_in(round.epoch);
  auto made = connect_to_round(round, options_, listener_);
  MUSTER_RETURN_IF_ERROR(made);
  communicator_ = &training_.connect(std::move(*made));
  listener_.guard(*communicator_);
  state_.attach(&listener_);
  return communicator_;
}

void Job::disconnect(const char* reason) {
  listener_.unguard();
  state_.attach(nullptr);
  Communicator* const communicator = std::exchange(communicator_, nullptr);
  if (communicator != nullptr && reason != nullptr) {
    communicator->abort(reason);
  }
  if (communicator != nullptr) {
    training_.disconnect();
  }
}

// Empty if no rank was lost, or if the launcher has exited.
std::optional<worker::Round> Job::next_round(const worker::Round& round) {
  const bool has_nodes = round.group_world_size != 1;
  if (!listener_.wait_for_loss(round.epoch, has_nodes ? kReportTimeoutOfNodes : kReportTimeout)) {
    return std::nullopt;
  }
  disconnect("another rank was lost");
  state_.restore();
  return listener_.wait_for_round(round.epoch);
}

Result<int> run_once(State& state, Training& training, CommOptions options) {
  auto made = connect_alone(std::move(options));
  MUSTER_RETURN_IF_ERROR(made);
  Communicator& communicator = training.connect(std::move(*made));
  auto result = call_function(state, training, communicator, [] { return Result<void>(); });
  if (!result || *result != 0) {
    communicator.abort(kFailed);
  }
  training.disconnect();
  return result;
}

Result<int> run_under_muster(State& state, Training& training, CommOptions options) {
  // A replacement starts with the first call, so the other ranks must be in the same call.
  if (is_used.exchange(true)) {
    return failure(Errc::invalid_state,
                   "cannot run a second elastic function: muster can replace ranks only in the "
                   "first call of this process. Combine the functions into one, and call it once");
  }
  auto listener = RoundListener::open();
  MUSTER_RETURN_IF_ERROR(listener);
  auto result = Job(state, training, std::move(options), **listener).run();
  if (result && *result == 0) {
    (*listener)->finish();
  }
  return result;
}

}  // namespace

Result<int> run(State& state, Training& training, const CommOptions& options) {
  MUSTER_RETURN_IF_ERROR(state.prepare());
  MUSTER_RETURN_IF_ERROR(become_worker());
  CommOptions named = options;
  named.name = "elastic";  // its own numbering, so that other communicators do not interfere
  return worker::started_by_muster() ? run_under_muster(state, training, std::move(named))
                                     : run_once(state, training, std::move(named));
}

}  // namespace muster::collective::elastic
