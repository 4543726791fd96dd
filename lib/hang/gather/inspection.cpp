// SPDX-License-Identifier: Apache-2.0
#include "hang/gather/inspection.hpp"

#include "base/clock.hpp"
#include "hang/judge/positions.hpp"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <utility>

namespace muster::hang {
namespace {

// The time between the two samples of each thread's CPU time. It spans many ticks of the kernel's
// clock.
constexpr Duration kCpuWindow = std::chrono::milliseconds(250);

}  // namespace

Inspection::Inspection(asio::io_context& loop, InspectionTools tools)
    : tools_(std::move(tools)),
      collector_(loop, tools_.py_spy, tools_.environment),
      torch_recorders_(loop),
      timer_(loop) {}

void Inspection::begin(Evidence evidence, std::vector<pid_t> pids, Duration within, Done done) {
  cancel();
  alive_ = std::make_shared<int>(0);
  evidence_ = std::move(evidence);
  pids_ = std::move(pids);
  within_ = within;
  done_ = std::move(done);
  stacks_there_ = torch_there_ = window_over_ = false;
  before_.clear();
  // Read /proc first, because eu-stack pauses processes and thereby changes what /proc shows.
  for (std::size_t i = 0; i < pids_.size(); ++i) {
    evidence_.ranks.at(i).processes = read_processes(pids_[i]);  // empty for pid 0
    before_.merge(thread_use(evidence_.ranks[i].processes));
  }
  before_at_ = steady_now();
  // The second CPU sample, the dumps and the stacks are collected in parallel. The inspection is
  // complete when all three have arrived.
  after(kCpuWindow, &Inspection::window_is_over);
  torch_recorders_.ask(evidence_.ranks, [this] {
    torch_there_ = true;
    conclude();
  });
  collector_.collect(evidence_.ranks, [this] {
    stacks_there_ = true;
    conclude();
  });
}

void Inspection::cancel() {
  alive_.reset();
  timer_.cancel();
  collector_.cancel();
  torch_recorders_.cancel();
}

void Inspection::after(Duration delay, Step step) {
  timer_.expires_after(std::max(delay, Duration::zero()));
  timer_.async_wait([this, step, alive = std::weak_ptr<int>(alive_)](const std::error_code& error) {
    if (!error && !alive.expired()) {
      (this->*step)();
    }
  });
}

void Inspection::window_is_over() {
  window_over_ = true;
  // The timer for the CPU window has fired and now limits the dumps and the stacks.
  after(within_ - kCpuWindow, &Inspection::time_is_up);
  conclude();
}

void Inspection::time_is_up() {
  evidence_.gaps.emplace_back("some stacks did not arrive in time");
  stacks_there_ = torch_there_ = true;
  conclude();
}

// Called whenever one of the three parts has arrived.
void Inspection::conclude() {
  if (!stacks_there_ || !torch_there_ || !window_over_) {
    return;
  }
  std::ranges::move(collector_.gaps(), std::back_inserter(evidence_.gaps));
  std::ranges::move(torch_recorders_.gaps(), std::back_inserter(evidence_.gaps));
  // After time_is_up(), some tools may still be running.
  cancel();
  // The window is longer than kCpuWindow if the stacks arrived later.
  const std::chrono::duration<double> window = steady_now() - before_at_;
  add_cpu(evidence_.ranks, before_, window.count());
  add_positions();
  torch_recorders_.add_positions(evidence_.ranks);
  find_other_sides(evidence_.ranks);
  std::exchange(done_, nullptr)(std::move(evidence_));
}

void Inspection::add_positions() {
  const auto now = static_cast<std::uint64_t>(steady_now().time_since_epoch().count());
  for (auto& [pid, position] : positions_of(tools_.read_recorders(), now)) {
    // pids_ contains the workers only, so recorders of their child processes are ignored.
    const auto worker = std::ranges::find(pids_, pid);
    if (worker != pids_.end()) {
      const auto at = static_cast<std::size_t>(worker - pids_.begin());
      evidence_.ranks.at(at).positions.push_back(std::move(position));
    }
  }
}

}  // namespace muster::hang
