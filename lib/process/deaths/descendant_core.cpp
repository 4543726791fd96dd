// SPDX-License-Identifier: Apache-2.0
#include "process/deaths/descendant_core.hpp"

#include "base/check.hpp"

#include <algorithm>
#include <array>
#include <csignal>
#include <utility>

namespace muster {
namespace {

constexpr std::array kDeadlySignals{
    SIGKILL, SIGILL, SIGTRAP, SIGABRT, SIGBUS, SIGFPE, SIGSEGV, SIGXCPU, SIGXFSZ, SIGSYS};

// Exit codes that shells and signal handlers use to report that they obeyed a stop request.
constexpr std::array kCodesOfRequests{128 + SIGHUP, 128 + SIGINT, 128 + SIGPIPE, 128 + SIGTERM};

template <std::size_t N>
bool is_among(const std::array<int, N>& all, int one) {
  return std::ranges::find(all, one) != all.end();
}

}  // namespace

bool is_failure(const std::optional<ExitStatus>& status, Duration age) {
  if (!status || status->success()) {
    return false;
  }
  if (status->signaled) {
    return is_among(kDeadlySignals, status->value);
  }
  return age >= kDescendantSettled && !is_among(kCodesOfRequests, status->value);
}

void DescendantCore::drop_worker(int local_rank) {
  some_ended_ = true;
  std::erase_if(workers_, [&](const auto& one) { return one.second == local_rank; });
  std::erase_if(descendants_, [&](const auto& one) { return one.second.local_rank == local_rank; });
}

std::optional<int> DescendantCore::owner_of(const ProcessRow& row,
                                            const OwnerOfOrphan& owner) const {
  if (const auto worker = workers_.find(row.parent); worker != workers_.end()) {
    return worker->second;
  }
  if (const auto parent = descendants_.find(row.parent); parent != descendants_.end()) {
    return parent->second.local_rank;
  }
  const auto local_rank = row.parent == reaper_ ? owner(row) : std::nullopt;
  return local_rank && worker(*local_rank) != 0 ? local_rank : std::nullopt;
}

std::vector<pid_t> DescendantCore::note_seen(TimePoint now,
                                             std::span<const ProcessRow> rows,
                                             const OwnerOfOrphan& owner) {
  std::vector<pid_t> added;
  for (const ProcessRow& row : rows) {
    const auto local_rank = knows(row.pid) ? std::nullopt : owner_of(row, owner);
    if (!local_rank) {
      continue;
    }
    if (descendants_.size() >= most_) {
      was_full_ = true;
      break;
    }
    descendants_[row.pid] = Descendant{*local_rank, row.command, now};
    added.push_back(row.pid);
  }
  return added;
}

std::optional<DescendantEnd> DescendantCore::note_end(TimePoint now,
                                                      pid_t pid,
                                                      const std::optional<ExitStatus>& status) {
  const auto found = descendants_.find(pid);
  if (found == descendants_.end()) {
    return std::nullopt;
  }
  const Descendant one = std::move(found->second);
  descendants_.erase(found);
  if (!is_failure(status, now - one.since)) {
    return std::nullopt;
  }
  DescendantEnd end;
  end.pid = pid;
  end.local_rank = one.local_rank;
  end.command = one.command;
  end.status = *status;
  return end;
}

std::optional<int> DescendantCore::owner_of_dead(pid_t group) const {
  if (const auto leader = workers_.find(group); leader != workers_.end()) {
    return leader->second;
  }
  if (some_ended_) {
    return std::nullopt;
  }
  std::optional<int> first;
  for (const auto& [pid, local_rank] : workers_) {
    first = std::min(first.value_or(local_rank), local_rank);
  }
  return first;
}

pid_t DescendantCore::worker(int local_rank) const {
  const auto found =
      std::ranges::find_if(workers_, [&](const auto& one) { return one.second == local_rank; });
  return found == workers_.end() ? 0 : found->first;
}

}  // namespace muster
