// SPDX-License-Identifier: Apache-2.0
#include "remote/children.hpp"

#include "base/check.hpp"
#include "base/clock.hpp"

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
    return std::unexpected(system_error("cannot create the signalfd for SIGCHLD", errno));
  }
  return poller_.watch_input(deaths_.get(), *this);
}

Result<void> RshChildren::start(RshChild::Place place, const SetupMessage& setup) {
  Slot slot{nullptr, std::move(place), setup, 0, std::nullopt};
  if (auto started = start_in(slot); !started) {
    return started;
  }
  slots_.push_back(std::move(slot));
  return {};
}

Result<void> RshChildren::start_in(Slot& slot) {
  auto child = RshChild::start(poller_, *this, slot.place);
  MUSTER_RETURN_IF_ERROR(child);
  slot.child = std::move(*child);
  slot.child->send({RemoteFrameKind::setup, slot.setup.host, encode(slot.setup)});
  return {};
}

void RshChildren::send(std::uint16_t host, RemoteFrameKind kind, std::string payload) {
  const auto found = std::ranges::find_if(slots_, [&](const Slot& slot) {
    return slot.place.branch.head <= host && host < slot.place.branch.end;
  });
  if (found != slots_.end()) {
    found->child->send({kind, host, std::move(payload)});
  }
}

void RshChildren::send_all(RemoteFrameKind kind, const std::string& payload) {
  for (const Slot& slot : slots_) {
    slot.child->send({kind, static_cast<std::uint16_t>(slot.place.branch.head), payload});
  }
}

void RshChildren::close_all() {
  closing_ = true;
  for (Slot& slot : slots_) {
    slot.again.reset();
    slot.child->close_input();
  }
}

bool RshChildren::all_gone() const {
  return std::ranges::all_of(slots_,
                             [](const Slot& slot) { return slot.child->is_gone() && !slot.again; });
}

// -- retries --------------------------------------------------------------------------------------

RshChildren::Slot& RshChildren::slot_of(const RshChild& child) {
  const auto found =
      std::ranges::find_if(slots_, [&](const Slot& slot) { return slot.child.get() == &child; });
  MUSTER_CHECK(found != slots_.end());
  return *found;
}

void RshChildren::on_frame(RshChild& child, const Frame& frame) {
  observer_.on_frame(child, frame);
}

void RshChildren::on_gone(RshChild& child) {
  Slot& slot = slot_of(child);
  const int failures = ++slot.failures;
  const double spread = spread_of(slot.place.branch.head, failures);
  const TimePoint again = steady_now() + retry_delay(failures, spread);
  if (closing_ || again > retry_until_ || !may_pass(child.end())) {
    observer_.on_gone(child);
    return;
  }
  slot.again = again;
  observer_.on_retry(child);
}

std::optional<TimePoint> RshChildren::next_deadline() const {
  std::optional<TimePoint> next;
  for (const Slot& slot : slots_) {
    if (slot.again) {
      next = std::min(next.value_or(*slot.again), *slot.again);
    }
  }
  return next;
}

void RshChildren::tick(TimePoint now) {
  for (Slot& slot : slots_) {
    if (slot.again && *slot.again <= now) {
      slot.again.reset();
      if (const auto started = start_in(slot); !started) {
        observer_.on_gone(*slot.child);
      }
    }
  }
}

// One SIGCHLD may represent several child exits.
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
    const auto found = std::ranges::find_if(slots_, [&](const Slot& slot) {
      return slot.child->pid() == info.si_pid && !slot.child->is_gone();
    });
    if (found != slots_.end()) {
      found->child->reaped(status);
    } else if (on_other_) {
      on_other_(info.si_pid, status);
    }
  }
}

}  // namespace muster
