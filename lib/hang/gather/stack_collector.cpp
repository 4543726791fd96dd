// SPDX-License-Identifier: Apache-2.0
#include "hang/gather/stack_collector.hpp"

#include "hang/gather/stack_dumps.hpp"
#include "hang/judge/stack_places.hpp"

#include <asio/io_context.hpp>
#include <asio/post.hpp>

#include <algorithm>
#include <iterator>
#include <utility>

namespace muster::hang {
namespace {

// Checks only the name of the process. A program that embeds Python gets a native stack instead.
bool is_python(const ProcessFacts& process) {
  return process.command.find("python") != std::string::npos ||
         process.command.starts_with("pt_");  // PyTorch's name for DataLoader workers
}

bool has_python_stack(const ProcessFacts& process) {
  return std::ranges::any_of(process.stacks, &Stack::python);
}

// A tracer would block on a thread in uninterruptible sleep. A process that is stopped by a signal
// needs no stack.
bool may_be_traced(const ProcessFacts& process) {
  return process.tracer == 0 && process.state != 'T' && process.state != 't' &&
         std::ranges::none_of(process.threads,
                              [](const ThreadFacts& thread) { return thread.state == 'D'; });
}

// Python's frames show neither what C code is doing nor whether it waits for a C++ lock.
bool needs_native(const ProcessFacts& process) {
  if (!may_be_traced(process) || process.threads.empty()) {
    return false;
  }
  const ThreadFacts& main = process.threads.front();
  const Stack* const python = stack_of(process, main.tid, true);
  // The program does not use Python, or py-spy has failed.
  if (python == nullptr) {
    return true;
  }
  // A lock inside a collective operation needs no native stack, because the Python stack already
  // shows the operation.
  const bool waits_in_c = main.wait.kind == WaitKind::lock && waits_for_lock(*python) &&
                          collective_of(python, nullptr).empty();
  return main.state == 'R' || python->holds_gil || waits_in_c;
}

}  // namespace

void StackCollector::collect(std::vector<RankEvidence>& ranks, Done done) {
  ranks_ = &ranks;
  done_ = std::move(done);
  native_ = false;
  gaps_.clear();
  for (RankEvidence& rank : ranks) {
    for (ProcessFacts& process : rank.processes) {
      if (is_python(process) && process.tracer == 0 && waiting_.size() < kStacksMax) {
        waiting_.push_back({&process, true});
      }
    }
  }
  // next() calls `done` at once if no process needs a stack, but collect() promises to call it
  // later.
  asio::post(loop_, [this, alive = std::weak_ptr<int>(alive_)] {
    if (!alive.expired()) {
      next();
    }
  });
}

// The second pass: needs_native() depends on the Python stacks from the first one.
void StackCollector::begin_native() {
  native_ = true;
  for (RankEvidence& rank : *ranks_) {
    for (ProcessFacts& process : rank.processes) {
      if (needs_native(process) && waiting_.size() < kStacksMax) {
        waiting_.push_back({&process, false});
      }
    }
  }
}

void StackCollector::next() {
  while (!waiting_.empty() && running_.size() < kStacksAtOnce) {
    const Task task = waiting_.front();
    waiting_.pop_front();
    start(task);
  }
  if (!waiting_.empty() || !running_.empty()) {
    return;
  }
  if (!native_) {
    begin_native();
    next();
  } else if (Done call = std::exchange(done_, nullptr)) {
    call();
  }
}

void StackCollector::start(const Task& task) {
  HelperSpec spec;
  const std::string pid = std::to_string(task.process->pid);
  if (task.python) {
    // --nonblocking reads the memory of the running process instead of pausing it.
    spec.argv = {py_spy_, "dump", "--json", "--nonblocking", "-p", pid};
    spec.timeout = kPySpyTimeout;
  } else if (has_python_stack(*task.process)) {
    // -1 selects the main thread. The Python stacks already show the others.
    spec.argv = {"eu-stack", "-1", "-n", std::to_string(kFramesMax), "-p", pid};
    spec.timeout = kEuStackTimeout;
  } else {
    spec.argv = {"eu-stack", "-n", std::to_string(kFramesMax), "-p", pid};
    spec.timeout = kEuStackTimeout;
  }
  spec.environment = environment_;
  spec.bytes_max = kDumpBytesMax;
  const std::size_t id = ++last_id_;
  auto helper = HelperProcess::start(
      loop_, spec, [this, id, task, alive = std::weak_ptr<int>(alive_)](const std::string& output) {
        if (!alive.expired()) {
          finished(id, task, output);
        }
      });
  // A missing program is reported for every process, but gaps_ is a set, so only one line remains.
  // next() continues with the next task.
  if (helper) {
    running_[id] = std::move(*helper);
  } else if (helper.error().code == Errc::not_found) {
    gaps_.insert(task.python ? "no Python stacks: py-spy is not in PATH (pip install py-spy)"
                             : "no native stacks: eu-stack is not in PATH (package elfutils)");
  } else {
    gaps_.insert("no stacks: " + helper.error().message);
  }
}

void StackCollector::finished(std::size_t id, const Task& task, const std::string& output) {
  running_.erase(id);
  auto stacks = task.python ? parse_py_spy(output) : parse_eu_stack(output);
  if (stacks.empty()) {
    const std::string pid = std::to_string(task.process->pid);
    gaps_.insert((task.python ? "py-spy" : "eu-stack") + (" returned no stack for process " + pid));
  }
  std::ranges::move(stacks, std::back_inserter(task.process->stacks));
  next();
}

std::vector<std::string> StackCollector::gaps() const {
  return {gaps_.begin(), gaps_.end()};
}

void StackCollector::cancel() {
  alive_ = std::make_shared<int>(0);
  waiting_.clear();
  // The destructor of HelperProcess kills the process.
  running_.clear();
  done_ = nullptr;
}

}  // namespace muster::hang
