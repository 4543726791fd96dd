// SPDX-License-Identifier: Apache-2.0
#include "agent/watch/port_watch.hpp"

#include "process/tree/descendants.hpp"
#include "process/tree/live_environment.hpp"
#include "process/values/proc_file.hpp"

#include <filesystem>
#include <set>
#include <string>
#include <string_view>

namespace muster {
namespace {

constexpr Duration kFirstLook = std::chrono::seconds(30);

// The number of processes to check each time. All ranks run the same script, so a few are enough.
constexpr std::size_t kTrapProcessesMax = 32;

constexpr std::size_t kSocketsBytesMax = std::size_t{4} * 1024 * 1024;

bool somebody_listens(std::uint16_t port) {
  return listens_in(read_proc_file("/proc/net/tcp", kSocketsBytesMax), port) ||
         listens_in(read_proc_file("/proc/net/tcp6", kSocketsBytesMax), port);
}

// The inodes of this launcher's sockets.
std::set<std::string, std::less<>> own_sockets() {
  constexpr std::string_view kBegin = "socket:[";
  std::set<std::string, std::less<>> out;
  std::error_code problem;
  std::filesystem::directory_iterator entry("/proc/self/fd", problem);
  while (!problem && entry != std::filesystem::directory_iterator{}) {
    std::error_code gone;
    const std::string target = std::filesystem::read_symlink(entry->path(), gone).string();
    if (!gone && target.starts_with(kBegin)) {
      out.insert(target.substr(kBegin.size(), target.size() - kBegin.size() - 1));
    }
    entry.increment(problem);
  }
  return out;
}

bool somebody_connects(std::uint16_t port) {
  const auto own = own_sockets();
  return connects_in(read_proc_file("/proc/net/tcp", kSocketsBytesMax), port, own) ||
         connects_in(read_proc_file("/proc/net/tcp6", kSocketsBytesMax), port, own);
}

}  // namespace

void PortWatch::take(const JobEvent& event) {
  if (const auto* begun = std::get_if<event::RoundBegun>(&event.what)) {
    begin(*begun);
  } else if (std::holds_alternative<event::WorkerEnded>(event.what) ||
             std::holds_alternative<event::WorkersSignalled>(event.what) ||
             std::holds_alternative<event::WorkersKilled>(event.what) ||
             std::holds_alternative<event::JobEnded>(event.what)) {
    timer_.cancel();
  }
}

void PortWatch::begin(const event::RoundBegun& begun) {
  timer_.cancel();
  const Assignment& given = begun.assignment;
  if (told_ || !given.agent_store) {
    return;
  }
  store_ = StoreFacts{given.master_addr, given.master_port, 0, given.group_rank == 0};
  visitors_before_ = visitors_();
  next_ = kFirstLook;
  waited_ = {};
  wait();
}

// Only the launcher that serves the store can count its clients. Other launchers look for open
// connections, because clients stay connected.
bool PortWatch::somebody_came() const {
  return store_.is_here ? visitors_() != visitors_before_ : somebody_connects(store_.port);
}

void PortWatch::wait() {
  timer_.expires_after(next_);
  timer_.async_wait([this](const std::error_code& error) {
    if (!error && !somebody_came()) {
      waited_ += next_;
      next_ *= 2;
      look();
    }
  });
}

void PortWatch::look() {
  store_.seconds =
      static_cast<int>(std::chrono::duration_cast<std::chrono::seconds>(waited_).count());
  std::size_t looked = 0;
  for (const ProcessRow& row : descendants()) {
    if (++looked > kTrapProcessesMax) {
      break;
    }
    auto variables = live_variables(row.pid, {"MASTER_PORT", "TORCHELASTIC_USE_AGENT_STORE"});
    if (variables && tell(WorkerEnvironment{row.pid, row.command, std::move(*variables)})) {
      return;
    }
  }
  wait();
}

bool PortWatch::tell(const WorkerEnvironment& worker) {
  const auto wrong = wrong_port(store_, worker);
  if (!wrong || somebody_listens(*wrong)) {
    return false;
  }
  told_ = true;
  events_.say(LogLevel::warning, describe_trap(store_, worker, *wrong));
  return true;
}

}  // namespace muster
