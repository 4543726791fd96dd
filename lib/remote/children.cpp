// SPDX-License-Identifier: Apache-2.0
#include "remote/children.hpp"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <utility>

#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

namespace muster {

RshChildren::~RshChildren() {
  if (deaths_) {
    poller_.forget(deaths_.get());
  }
}

Result<void> RshChildren::open(std::function<void(pid_t, ExitStatus)> on_other) {
  on_other_ = std::move(on_other);
  sigset_t child;
  sigemptyset(&child);
  sigaddset(&child, SIGCHLD);  // blocked since prepare_process
  deaths_ = UniqueFd(::signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!deaths_) {
    return std::unexpected(system_error("creating the signalfd for SIGCHLD", errno));
  }
  return poller_.watch_input(deaths_.get(), *this);
}

Result<void> RshChildren::start(RshChild::Place place, const SetupMessage& setup) {
  auto child = RshChild::start(poller_, observer_, std::move(place));
  if (!child) {
    return std::unexpected(child.error());
  }
  (*child)->send({RemoteFrameKind::setup, setup.host, encode(setup)});
  children_.push_back(std::move(*child));
  return {};
}

void RshChildren::send(std::uint16_t host, RemoteFrameKind kind, std::string payload) {
  const auto found = std::ranges::find_if(children_, [&](const auto& child) {
    return child->branch().head <= host && host < child->branch().end;
  });
  if (found != children_.end()) {
    (*found)->send({kind, host, std::move(payload)});
  }
}

void RshChildren::send_all(RemoteFrameKind kind, const std::string& payload) {
  for (const auto& child : children_) {
    child->send({kind, static_cast<std::uint16_t>(child->branch().head), payload});
  }
}

void RshChildren::close_all() {
  for (const auto& child : children_) {
    child->close_input();
  }
  resume_all();
}

void RshChildren::pause(RshChild& child) {
  child.pause();
  paused_.insert(&child);
}

void RshChildren::resume_all() {
  for (RshChild* const child : std::exchange(paused_, {})) {
    child->resume();
  }
}

bool RshChildren::all_gone() const {
  return std::ranges::all_of(children_, [](const auto& child) { return child->is_gone(); });
}

// Several deaths may have become one signal.
void RshChildren::on_ready() {
  signalfd_siginfo signal{};
  while (::read(deaths_.get(), &signal, sizeof(signal)) > 0) {
  }
  while (true) {
    siginfo_t info{};
    if (::waitid(P_ALL, 0, &info, WEXITED | WNOHANG) != 0 || info.si_pid == 0) {
      return;
    }
    const auto status = ExitStatus::from_wait(info.si_code, info.si_status);
    const auto found = std::ranges::find_if(
        children_, [&](const auto& child) { return child->pid() == info.si_pid; });
    if (found != children_.end()) {
      (*found)->reaped(status);
    } else if (on_other_) {
      on_other_(info.si_pid, status);
    }
  }
}

}  // namespace muster
