// SPDX-License-Identifier: Apache-2.0
#include "collective/bootstrap/start_watch.hpp"

#include "base/clock.hpp"
#include "base/text.hpp"
#include "rendezvous/client/store.hpp"

#include <fmt/format.h>

#include <cerrno>
#include <limits>
#include <utility>

#include <poll.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace muster::collective {
namespace {

// The interval between checks is kSlice plus kSliceOfRank for each rank. It grows with the number
// of ranks, so that a large startup does not overload the store.
constexpr Duration kSlice = std::chrono::milliseconds(50);
constexpr Duration kSliceOfRank = std::chrono::microseconds(200);
// How long reason() waits for a cause. When a process dies, its connections close slightly before
// its death can be detected.
constexpr Duration kReasonTimeout = std::chrono::milliseconds(200);
constexpr int kLastErrorCode = 11;
constexpr std::string_view kHostTopic = "hosts";

std::string news_key(const BootstrapContext& context) {
  return context.prefix + "failed";
}

// Formats an error as "CODE RANK text".
std::string encode(const Error& error) {
  return fmt::format("{} {} {}", static_cast<int>(error.code), error.rank, error.text);
}

std::optional<Error> decode(std::string_view text) {
  const auto first = text.find(' ');
  const auto second = first == text.npos ? first : text.find(' ', first + 1);
  if (second == text.npos) {
    return std::nullopt;
  }
  const auto code = parse_int(text.substr(0, first));
  const auto rank = parse_int(text.substr(first + 1, second - first - 1));
  if (!code || *code < 1 || *code > kLastErrorCode || !rank || *rank < -1 ||
      *rank > std::numeric_limits<int>::max()) {
    return std::nullopt;
  }
  return Error{.code = static_cast<Errc>(*code),
               .rank = static_cast<int>(*rank),
               .text = std::string(text.substr(second + 1))};
}

}  // namespace

Error start_failure(const Error& error, int rank) {
  if (error.code == Errc::peer_failed || error.code == Errc::timeout ||
      error.code == Errc::aborted || error.code == Errc::mismatch) {
    return error;
  }
  return {.code = Errc::peer_failed,
          .rank = rank,
          .text = error.rank == rank
                      ? error.text
                      : fmt::format("rank {} could not start: {}", rank, error.text)};
}

std::string HostCard::encode() const {
  return fmt::format("{}/{} {}", pid, pid_space, host);
}

std::optional<HostCard> HostCard::decode(std::string_view text) {
  const auto slash = text.find('/');
  const auto space = text.find(' ');
  if (slash == text.npos || space == text.npos || slash > space) {
    return std::nullopt;
  }
  const auto pid = parse_int(text.substr(0, slash));
  const auto pid_space = parse_int(text.substr(slash + 1, space - slash - 1));
  if (!pid || *pid < 1 || *pid > std::numeric_limits<pid_t>::max() || !pid_space ||
      *pid_space < 0) {
    return std::nullopt;
  }
  return HostCard{static_cast<pid_t>(*pid),
                  static_cast<std::uint64_t>(*pid_space),
                  std::string(text.substr(space + 1))};
}

HostCard HostCard::own(std::string host) {
  struct stat pids {};

  const bool known = ::stat("/proc/self/ns/pid", &pids) == 0;
  return {::getpid(), known ? pids.st_ino : 0, std::move(host)};
}

StartWatch::StartWatch(const BootstrapContext& context, HostCard own)
    : context_(context), own_(std::move(own)) {
  context_.watch = nullptr;
}

void StartWatch::know(const std::vector<HostCard>& cards) {
  know_all_ = true;
  for (std::size_t rank = 0; rank < cards.size(); ++rank) {
    know(static_cast<int>(rank), cards[rank]);
  }
}

// Skips ranks on other hosts (including simulated hosts), and ranks that are threads of this
// process.
void StartWatch::know(int rank, const HostCard& card) {
  if (rank == context_.rank || card.host != own_.host || card.pid_space != own_.pid_space ||
      own_.pid_space == 0 || card.pid == own_.pid || processes_.contains(rank)) {
    return;
  }
  UniqueFd handle(static_cast<int>(::syscall(SYS_pidfd_open, card.pid, 0)));
  const bool is_dead = !handle && errno == ESRCH;
  processes_[rank] = {card.pid, std::move(handle), is_dead};
}

void StartWatch::rely_on(const PeerWatch& local) {
  local_ = &local;
  processes_.clear();
}

Duration StartWatch::slice() const {
  return kSlice + context_.size * kSliceOfRank;
}

// Until all cards have arrived, the set of ranks on this host is unknown. So watch the adjacent
// ranks, which usually share a host.
void StartWatch::look_for_neighbours() {
  for (const int rank : {context_.rank - 1, context_.rank + 1}) {
    if (rank < 0 || rank >= context_.size || processes_.contains(rank)) {
      continue;
    }
    const std::string key = fmt::format("{}{}/{}", context_.prefix, kHostTopic, rank);
    const auto there = context_.store->check({key});
    const auto text = there && *there ? context_.store->get(key, kSlice)
                                      : muster::failure(muster::Errc::timed_out, "not yet");
    if (const auto card = text ? HostCard::decode(*text) : std::nullopt) {
      know(rank, *card);
    }
  }
}

std::optional<Error> StartWatch::dead() {
  for (auto& [rank, process] : processes_) {
    pollfd watched{process.handle.get(), POLLIN, 0};
    process.is_dead = process.is_dead || (process.handle && ::poll(&watched, 1, 0) == 1);
    if (process.is_dead) {
      return Error{
          .code = Errc::peer_failed,
          .rank = rank,
          .text = fmt::format("rank {} (pid {}) has died during startup", rank, process.pid)};
    }
  }
  return std::nullopt;
}

std::optional<Error> StartWatch::reported() {
  const auto there = context_.store->check({news_key(context_)});
  const auto text = there && *there ? context_.store->get(news_key(context_), kSlice)
                                    : muster::failure(muster::Errc::timed_out, "no news");
  auto error = text ? decode(*text) : std::nullopt;
  is_reported_ = is_reported_ || error;
  return error;
}

// An error that a rank has reported takes precedence over a death, because the reporting rank may
// have exited in the meantime.
std::optional<Error> StartWatch::look() {
  if (auto error = parent_ != nullptr ? parent_->failure() : std::nullopt) {
    is_reported_ = true;
    return error;
  }
  // Ranks that have already started may fail in an operation. That must not make our startup fail;
  // our first operation will report it.
  auto error = local_ != nullptr ? local_->failure() : std::nullopt;
  if (error && error->seq == 0) {
    return error;
  }
  if (steady_now() < next_) {
    return std::nullopt;
  }
  if (!know_all_) {
    look_for_neighbours();
  }
  auto seen = dead();
  auto news = reported();
  next_ = steady_now() + slice();
  return news ? news : seen;
}

std::optional<Error> StartWatch::reason() {
  const TimePoint deadline = steady_now() + kReasonTimeout;
  while (steady_now() < deadline) {
    next_ = {};
    if (auto error = look()) {
      return error;
    }
    static_cast<void>(::poll(nullptr, 0, 5));
  }
  return std::nullopt;
}

void StartWatch::tell(const Error& error) {
  if (error.code == Errc::store || is_reported_ || reported()) {
    return;
  }
  is_reported_ = true;
  static_cast<void>(
      context_.store->set(news_key(context_), encode(start_failure(error, context_.rank))));
}

Result<std::vector<std::string>> exchange_host_cards(const BootstrapContext& context,
                                                     const HostCard& own) {
  const auto texts = exchange_cards(context, kHostTopic, own.encode());
  MUSTER_RETURN_IF_ERROR(texts);
  std::vector<HostCard> cards;
  std::vector<std::string> names;
  for (const auto& text : *texts) {
    auto card = HostCard::decode(text);
    if (!card) {
      return failure(Errc::store, "the store contains a malformed host entry for one of the ranks");
    }
    names.push_back(card->host);
    cards.push_back(std::move(*card));
  }
  context.watch->know(cards);
  return names;
}

}  // namespace muster::collective
