// SPDX-License-Identifier: Apache-2.0
#include "worker/worker.hpp"

#include "base/clock.hpp"
#include "base/environ.hpp"
#include "worker/agent_connection.hpp"

#include <algorithm>
#include <atomic>
#include <charconv>
#include <limits>
#include <mutex>
#include <type_traits>
#include <utility>

#include <pthread.h>
#include <unistd.h>

namespace muster::worker {
namespace {

// Minimum interval between progress frames, used if there is no shared page.
constexpr Duration kBetweenFrames = std::chrono::seconds(1);

std::string variable(std::string_view name) {
  return Environ::from_block(::environ).get(name).value_or("");
}

Result<AgentConnection> connect() {
  const std::string name = variable("MUSTER_AGENT");
  if (name.empty()) {
    return failure(Errc::unreachable, "not started by muster");
  }
  return AgentConnection::open(name);
}

// This process's link to its launcher: one connection, opened by the first call.
struct Agent {
  std::mutex mutex;
  pid_t owner = 0;  // a forked child opens its own connection
  std::optional<AgentConnection> connection;
  bool subscribed = false;
  bool stopping = false;
  TimePoint told{};            // time of the last progress frame
  Agent* abandoned = nullptr;  // the one before; kept, so that leak checkers do not report it

  // Null if there is no connection. The caller holds the mutex.
  AgentConnection* get();
  // The caller holds the mutex.
  bool say(const channel::WorkerFrame& frame);
  void subscribe();
};

// Never destroyed: threads may still report while the process exits.
std::atomic<Agent*> the_agent = new Agent;

Agent& agent() {
  return *the_agent;
}

// Other threads may still use the old one.
void replace_agent() {
  auto* const next = new Agent;
  next->abandoned = the_agent;
  the_agent = next;
}

// The child of a worker takes no part in the worker's steps.
std::atomic<bool> is_forked = false;

// Runs in a forked child. Another thread of the parent may have held the mutex and left the old
// Agent in an inconsistent state, so abandon it.
void renew_agent() {
  is_forked = true;
  if (agent().mutex.try_lock()) {
    agent().mutex.unlock();
  } else {
    replace_agent();
  }
}

const bool renewed_at_fork = ::pthread_atfork(nullptr, nullptr, &renew_agent) == 0;

// Set once and never unmapped. A forked child uses it to report for the same worker.
std::atomic<channel::ProgressPage*> the_page = nullptr;
std::atomic<bool> page_sought = false;

// The epoch in which this process continues; 0 while MUSTER_EPOCH is valid.
std::atomic<std::uint64_t> later_epoch = 0;

AgentConnection* Agent::get() {
  if (std::exchange(owner, ::getpid()) != ::getpid()) {
    connection.reset();
    subscribed = false;
    if (auto made = connect()) {
      connection = std::move(*made);
    }
  }
  return connection ? &*connection : nullptr;
}

bool Agent::say(const channel::WorkerFrame& frame) {
  AgentConnection* const there = get();
  const auto sent = there != nullptr ? there->send(frame) : Result<bool>(false);
  if (!sent) {
    connection.reset();
  }
  return sent.value_or(false);
}

// Also waits for the first reply, which delivers a stop request that was sent earlier.
void Agent::subscribe() {
  subscribed = say(channel::Subscribe{});
  if (subscribed && !connection->next(kAnswerTimeout)) {
    connection.reset();
  }
}

bool say(const channel::WorkerFrame& frame) {
  const std::scoped_lock lock(agent().mutex);
  return agent().say(frame);
}

// Null if there is no launcher.
channel::ProgressPage* find_page() {
  channel::ProgressPage* const found = the_page.load(std::memory_order_acquire);
  if (found != nullptr || page_sought) {
    return found;
  }
  const std::scoped_lock lock(agent().mutex);
  AgentConnection* const there = agent().get();
  if (auto page = there != nullptr ? there->take_page() : std::nullopt) {
    the_page = new channel::ProgressPage(std::move(*page));
  }
  page_sought = true;
  return the_page;
}

void tell_progress(std::uint64_t step) {
  const std::scoped_lock lock(agent().mutex);
  const TimePoint now = steady_now();
  if (agent().connection && now - agent().told >= kBetweenFrames) {
    agent().told = now;
    agent().say(channel::ProgressMade{step});
  }
}

std::vector<NodeRanks> nodes_of(const std::vector<channel::NodeRanks>& nodes) {
  std::vector<NodeRanks> out;
  for (const channel::NodeRanks& one : nodes) {
    out.push_back({one.node, one.rank, one.count});
  }
  return out;
}

Round round_of(const channel::Round& r) {
  return {r.epoch,
          r.rank,
          r.world_size,
          r.local_rank,
          r.local_world_size,
          r.group_rank,
          r.group_world_size,
          r.restarts,
          r.store_address,
          r.store_port,
          nodes_of(r.left),
          nodes_of(r.joined)};
}

// Empty if the frame is not about the job's members.
std::optional<News> news_of(const channel::AgentFrame& frame) {
  return std::visit(
      []<class Frame>(const Frame& one) -> std::optional<News> {
        if constexpr (std::is_same_v<Frame, channel::Round>) {
          return round_of(one);
        } else if constexpr (std::is_same_v<Frame, channel::Gone>) {
          return Gone{one.epoch, one.rank, one.count, one.failed, one.why};
        } else if constexpr (std::is_same_v<Frame, channel::Stop>) {
          return Stop{one.seconds, one.why};
        } else if constexpr (std::is_same_v<Frame, channel::Preempt>) {
          return Preempt{one.step, one.seconds, one.why};
        } else {
          return std::nullopt;
        }
      },
      frame);
}

}  // namespace

void progress(std::uint64_t step) {
  if (channel::ProgressPage* const page = find_page()) {
    page->store(step, steady_now());
  } else {
    tell_progress(step);
  }
}

bool number(std::string_view name, double number) {
  channel::ProgressPage* const page = find_page();
  return page != nullptr && page->store_number(name, number);
}

bool unhealthy(std::string_view why) {
  constexpr std::size_t kWhyBytesMax = 500;
  return say(channel::Unhealthy{std::string(why.substr(0, kWhyBytesMax))});
}

bool healthy() {
  return say(channel::Healthy{});
}

bool event(std::string_view json) {
  auto frame = channel::event_of(json);
  return frame && say(std::move(*frame));
}

bool ready() {
  return say(channel::Ready{epoch()});
}

std::uint64_t epoch() {
  if (const std::uint64_t later = later_epoch.load(); later > 0) {
    return later;
  }
  const std::string text = variable("MUSTER_EPOCH");
  std::uint64_t out = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  return error == std::errc{} && end == text.data() + text.size() ? out : 0;
}

void continue_in(std::uint64_t epoch) {
  later_epoch = epoch;
}

void start_again() {
  replace_agent();
  page_sought = false;
}

bool started_by_muster() {
  return !variable("MUSTER_AGENT").empty();
}

bool stopping() {
  const std::scoped_lock lock(agent().mutex);
  Agent& one = agent();
  if (!one.stopping && one.get() != nullptr && !one.subscribed) {
    one.subscribe();
  }
  while (!one.stopping && one.connection) {
    const auto frame = one.connection->next(Duration{});
    if (!frame) {
      one.connection.reset();
    } else if (!*frame) {
      break;
    } else {
      one.stopping = std::holds_alternative<channel::Stop>(**frame);
    }
  }
  return one.stopping;
}

// -- the members of the job ---------------------------------------------------------------------

class Rounds::Connection {
 public:
  Connection(AgentConnection made, bool continues)
      : agent(std::move(made)), continues_(continues) {}

  // muster kills a process that continues after losses but does not confirm the news of one. The
  // first round is not news of a loss.
  void confirm(const News& news) {
    const auto* gone = std::get_if<Gone>(&news);
    const bool is_loss =
        gone != nullptr ? gone->failed
                        : std::holds_alternative<Round>(news) && std::exchange(has_round_, true);
    if (continues_ && is_loss) {
      static_cast<void>(agent.send(channel::Heard{}));
    }
  }

  AgentConnection agent;
  std::atomic<bool> ended = false;

 private:
  bool continues_;
  bool has_round_ = false;
};

namespace {

Result<AgentConnection> subscribed(bool mends) {
  auto made = connect();
  const auto sent = made ? made->send(channel::Subscribe{mends}) : std::unexpected(made.error());
  if (!sent) {
    return std::unexpected(sent.error());
  }
  return *sent ? std::move(made) : failure(Errc::closed, "the launcher does not read");
}

}  // namespace

Rounds::Rounds() {
  if (auto made = subscribed(false)) {
    connection_ = std::make_unique<Connection>(std::move(*made), false);
  }
}

Rounds::Rounds(std::unique_ptr<Connection> connection) : connection_(std::move(connection)) {}

Result<Rounds> Rounds::continuing() {
  auto made = subscribed(true);
  MUSTER_RETURN_IF_ERROR(made);
  return Rounds(std::make_unique<Connection>(std::move(*made), true));
}

Rounds::~Rounds() = default;
Rounds::Rounds(Rounds&&) noexcept = default;
Rounds& Rounds::operator=(Rounds&&) noexcept = default;

bool Rounds::ended() const {
  return connection_ == nullptr || connection_->ended;
}

bool Rounds::ready(std::uint64_t epoch) {
  return connection_ != nullptr && connection_->agent.send(channel::Ready{epoch}).value_or(false);
}

bool Rounds::arrive() {
  return connection_ != nullptr && connection_->agent.send(channel::Heard{true}).value_or(false);
}

bool Rounds::finish() {
  return connection_ != nullptr && connection_->agent.send(channel::Subscribe{}).value_or(false);
}

void Rounds::shut_down() {
  if (connection_ != nullptr) {
    connection_->agent.shut_down();
  }
}

std::optional<News> Rounds::next(Duration timeout) {
  while (!ended()) {
    const auto frame = connection_->agent.next(timeout);
    if (!frame) {
      connection_->ended = true;
      break;
    }
    if (!*frame) {
      break;
    }
    if (auto news = news_of(**frame)) {
      connection_->confirm(*news);
      return news;
    }
  }
  return std::nullopt;
}

// -- preemption -----------------------------------------------------------------------------------

namespace {

constexpr std::uint64_t kUndecided = std::numeric_limits<std::uint64_t>::max();

// From this step on, preempted() returns true.
std::atomic<std::uint64_t> save_step = kUndecided;

// The page of a process that takes part in the worker's steps; else null.
channel::ProgressPage* polled_page() {
  static std::atomic<bool> announced = false;
  channel::ProgressPage* const page = is_forked ? nullptr : find_page();
  if (page != nullptr && !announced) {
    page->announce_polls();
    announced = true;
  }
  return page;
}

// Waits for the launcher's decision. If it does not arrive in time, this rank saves alone. After a
// stop request, the ranks can no longer save together, so it does not save.
std::uint64_t await_save_step(TimePoint now, TimePoint deadline) {
  const TimePoint until =
      now + std::clamp<Duration>((deadline - now) / 2, kDecisionTimeoutMin, kDecisionTimeoutMax);
  Rounds rounds;
  while (const auto news = rounds.next(until - steady_now())) {
    if (const auto* const decided = std::get_if<Preempt>(&*news)) {
      return decided->step.value_or(0);
    }
    if (std::holds_alternative<Stop>(*news)) {
      return kUndecided;
    }
  }
  return 0;
}

}  // namespace

bool preempted() {
  channel::ProgressPage* const page = polled_page();
  if (page == nullptr || !page->poll()) {
    return false;
  }
  if (save_step == kUndecided) {
    const TimePoint now = steady_now();
    save_step = await_save_step(now, page->deadline().value_or(now));
  }
  return page->step().value_or(0) >= save_step;
}

std::optional<Duration> deadline() {
  channel::ProgressPage* const page = find_page();
  const auto when = page != nullptr ? page->deadline() : std::nullopt;
  return when ? std::optional(*when - steady_now()) : std::nullopt;
}

bool saved(std::uint64_t step) {
  return say(channel::Saved{step});
}

}  // namespace muster::worker
