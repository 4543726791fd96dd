// SPDX-License-Identifier: Apache-2.0
#include "hang/judge/own_cause.hpp"

#include "hang/judge/stack_places.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <set>
#include <string>
#include <utility>

namespace muster::hang {
namespace {

// Fraction of one CPU. A thread that sleeps between polls uses less.
constexpr double kBusy = 0.5;

// A thread, and the process and rank to which it belongs.
struct View {
  const RankEvidence& rank;
  const ProcessFacts& process;
  const ThreadFacts& thread;
};

const ThreadFacts* find_thread(const ProcessFacts& process, pid_t tid) {
  const auto found = std::ranges::find(process.threads, tid, &ThreadFacts::tid);
  return found == process.threads.end() ? nullptr : &*found;
}

bool is_busy(const ThreadFacts& thread) {
  return thread.runs || thread.cpu >= kBusy;
}

std::string by_name(const ProcessFacts& process) {
  return fmt::format("{} ({})", process.pid, process.command);
}

// The place in the code, such as "spin, called by main (train.py:12)". Empty if unknown.
std::string place(const View& view) {
  const Stack* const python = stack_of(view.process, view.thread.tid, true);
  const Frame* const frame = own_frame(python);
  const Frame* const native = own_native_frame(stack_of(view.process, view.thread.tid, false));
  if (native == nullptr) {
    return frame == nullptr ? "" : describe(*frame);
  }
  return native->function + (frame == nullptr ? "" : ", called by " + describe(*frame));
}

// For example " in main (train.py:12)".
std::string where(const View& view) {
  const std::string at = place(view);
  return at.empty() ? "" : " in " + at;
}

OwnCause found(const View& view, Cause cause, std::string reason) {
  OwnCause out;
  out.cause = cause;
  out.reason = std::move(reason);
  out.holder = view.thread.wait.holder;
  out.stack = lines_of(stack_of(view.process, view.thread.tid));
  return out;
}

// -- process states --------------------------------------------------------------------------

std::optional<OwnCause> halted(const RankEvidence& rank, const ProcessFacts& process) {
  if (process.threads.empty()) {
    return std::nullopt;
  }
  const View view{rank, process, process.threads.front()};
  // /proc is read before our own eu-stack attaches (Inspection::begin()), so the tracer is another
  // program.
  if (process.tracer != 0) {
    return found(view, Cause::stopped, fmt::format("stopped by debugger {}", process.tracer));
  }
  if (process.state != 'T') {
    return std::nullopt;
  }
  return found(view,
               Cause::stopped,
               fmt::format("stopped by a signal; kill -CONT {} resumes it", process.pid));
}

std::optional<OwnCause> uninterruptible(const View& view) {
  if (view.thread.state != 'D') {
    return std::nullopt;
  }
  // eu-stack is not run on a process in uninterruptible sleep, because eu-stack would block, too.
  // The kernel function still shows where the thread waits.
  const Wait& wait = view.thread.wait;
  const std::string on = wait.path.empty() ? "a device" : wait.path;
  const std::string in = view.thread.kernel_function;
  return found(
      view,
      Cause::blocked_io,
      fmt::format("blocked in I/O on {}{}{}", on, in.empty() ? "" : ", in kernel function ", in));
}

// -- running threads -------------------------------------------------------------------------

OwnCause spinning(const View& view) {
  const std::string at = place(view);
  const Stack* const native = stack_of(view.process, view.thread.tid, false);
  const bool on_gpu = native != nullptr && waits_for_gpu(*native);
  const std::string in = at.empty() ? "an unknown function" : at;
  OwnCause out =
      found(view, Cause::spinning, (on_gpu ? "waiting for the GPU in " : "spinning in ") + in);
  out.on_gpu = on_gpu;
  return out;
}

// -- waiting threads -------------------------------------------------------------------------

// Nested process pools are followed up to this depth.
constexpr int kDepthMax = 4;

// The search for a cause through threads and child processes.
struct Search {
  int depth = 0;
  // Each thread that another thread waits for is visited only once. Threads may wait for each
  // other, and a process may have hundreds of them, so without this check every path would visit
  // them again.
  std::set<pid_t>& seen;

  [[nodiscard]] Search deeper() const { return {depth + 1, seen}; }
};

OwnCause thread_cause(const View& view, const Search& search);

// The child process whose state is most relevant: a stopped child is preferred to a sleeping child.
struct ChildCause {
  const ProcessFacts* process = nullptr;
  OwnCause cause;
};

// Causes that explain best why the parent waits come first. All other causes rank equally last.
constexpr std::array kChildOrder{
    Cause::stopped, Cause::blocked_io, Cause::deadlocked, Cause::spinning, Cause::sleeps};

ChildCause worst_child(const RankEvidence& rank, const ProcessFacts& parent, const Search& search) {
  ChildCause worst;
  auto rank_of_worst = kChildOrder.end();
  for (const ProcessFacts& process : rank.processes) {
    if (process.parent != parent.pid || process.threads.empty()) {
      continue;
    }
    auto halt = halted(rank, process);
    OwnCause cause =
        halt ? *halt : thread_cause({rank, process, process.threads.front()}, search.deeper());
    const auto* const order = std::ranges::find(kChildOrder, cause.cause);
    if (worst.process == nullptr || order < rank_of_worst) {
      worst = {&process, std::move(cause)};
      rank_of_worst = order;
    }
  }
  return worst;
}

// Returns `cause`, unless a lock or I/O in a child process explains the wait.
OwnCause waits_for_child(const View& view,
                         Cause cause,
                         const std::string& words,
                         const Search& search) {
  const ChildCause child = worst_child(view.rank, view.process, search);
  if (child.process == nullptr) {
    return found(view, cause, words + where(view));
  }
  const bool explains =
      cause == Cause::waits_for_child &&
      (child.cause.cause == Cause::deadlocked || child.cause.cause == Cause::blocked_io);
  OwnCause out = found(view,
                       explains ? child.cause.cause : cause,
                       fmt::format("{}{}: process {} is {}",
                                   words,
                                   where(view),
                                   by_name(*child.process),
                                   child.cause.reason));
  if (explains && !child.cause.stack.empty()) {
    out.stack = child.cause.stack;
  }
  return out;
}

// The threads of a process that wait for a lock and are not idle, in the form "one in f (x.py:6)".
std::vector<std::string> lock_waiters(const RankEvidence& rank, const ProcessFacts& process) {
  std::vector<std::string> out;
  for (const ThreadFacts& thread : process.threads) {
    const Stack* const stack = stack_of(process, thread.tid);
    if (thread.wait.kind == WaitKind::lock && stack != nullptr && waits_for_lock(*stack)) {
      const std::string& name = stack->name.empty() ? thread.name : stack->name;
      out.push_back(fmt::format("{} in {}", name, place({rank, process, thread})));
    }
  }
  return out;
}

std::string gil_words(const ProcessFacts& process) {
  for (const Stack& stack : process.stacks) {
    if (stack.holds_gil) {
      const Frame* const frame = own_frame(&stack);
      return fmt::format("; Python's GIL is held by {}",
                         frame == nullptr ? stack.name : describe(*frame));
    }
  }
  return "";
}

OwnCause deadlocked(const View& view) {
  const auto waiters = lock_waiters(view.rank, view.process);
  std::string who;
  for (std::size_t i = 0; i < std::min<std::size_t>(waiters.size(), 3); ++i) {
    who += (i == 0 ? ": " : "; ") + waiters[i];
  }
  return found(view,
               Cause::deadlocked,
               fmt::format("deadlocked on a lock{}{}",
                           waiters.empty() ? where(view) : who,
                           gil_words(view.process)));
}

// The thread waits for another thread of its process, so find out what that thread is doing.
OwnCause waits_for_thread(const View& view, const std::string& words, const Search& search) {
  search.seen.insert(view.thread.tid);
  if (search.depth == kDepthMax) {
    return found(view, Cause::waits_for_thread, words + where(view));
  }
  for (const ThreadFacts& thread : view.process.threads) {
    const Stack* const stack = stack_of(view.process, thread.tid);
    // A pool's idle thread waits for work itself, so it explains nothing.
    if (stack == nullptr || idles(*stack) || !search.seen.insert(thread.tid).second) {
      continue;
    }
    const View other{view.rank, view.process, thread};
    OwnCause cause = thread_cause(other, search.deeper());
    // The text about a deadlock already names the threads.
    if (cause.cause == Cause::deadlocked) {
      return cause;
    }
    if (cause.cause != Cause::unknown && cause.cause != Cause::waits_for_thread) {
      cause.reason = fmt::format("{}; thread {} is {}", words, stack->name, cause.reason);
      return cause;
    }
  }
  return found(view, Cause::waits_for_thread, words + where(view));
}

OwnCause waits_for_futex(const View& view, const Search& search) {
  const Stack* const stack = stack_of(view.process, view.thread.tid);
  if (stack == nullptr) {
    return found(
        view, Cause::deadlocked, "waiting for a lock (which one is unknown: no stacks available)");
  }
  // multiprocessing waits for its child processes with locks, so the child processes show the
  // reason.
  if (in_multiprocessing(*stack)) {
    return waits_for_child(view, Cause::waits_for_child, "waiting for its child processes", search);
  }
  // Locks, condition variables and joins are all futexes to the kernel. Only the functions on the
  // stack distinguish a deadlock from a queue that stays empty.
  switch (lock_kind(*stack)) {
    case LockKind::join:
      return waits_for_thread(view, "waiting for a thread to exit", search);
    case LockKind::queue:
      return waits_for_thread(view, "waiting for an item in a queue", search);
    case LockKind::condition:
      return waits_for_thread(view, "waiting on a condition variable", search);
    case LockKind::lock:
      break;
  }
  return deadlocked(view);
}

std::string io_words(const Wait& wait) {
  const bool pipe = wait.path.starts_with("pipe:");
  switch (wait.kind) {
    case WaitKind::file_lock:
      return "waiting for the lock on " + wait.path;
    case WaitKind::write:
      return pipe ? "writing to a full pipe, " + wait.path : "blocked in I/O on " + wait.path;
    case WaitKind::open:
      return "blocked in I/O on " + wait.path + ", opening it";
    default:
      return "blocked in I/O on " + wait.path;
  }
}

OwnCause blocked_io(const View& view, const Search& search) {
  const Wait& wait = view.thread.wait;
  if (wait.kind == WaitKind::read && wait.fd == 0) {
    return found(view, Cause::waits_for_input, "reading standard input" + where(view));
  }
  // A program that reads the output of a child process waits for that process, as in
  // subprocess.check_output().
  const bool child = std::ranges::any_of(view.rank.processes, [&](const ProcessFacts& process) {
    return process.pid == wait.holder && process.pid != view.process.pid &&
           process.parent == view.process.pid;
  });
  if (wait.kind == WaitKind::read && child) {
    return waits_for_child(view, Cause::waits_for_child, "waiting for its child process", search);
  }
  const std::string by =
      wait.holder == 0 ? "" : fmt::format(", whose other end is process {}", wait.holder);
  const std::string held = wait.holder == 0 ? "" : fmt::format(", held by process {}", wait.holder);
  const bool lock = wait.kind == WaitKind::file_lock;
  return found(view, Cause::blocked_io, io_words(wait) + (lock ? held : by) + where(view));
}

OwnCause polls(const View& view, const Search& search) {
  const Wait& wait = view.thread.wait;
  const Stack* const stack = stack_of(view.process, view.thread.tid);
  if (stack != nullptr && in_multiprocessing(*stack)) {
    return waits_for_child(view, Cause::waits_for_child, "waiting for its child processes", search);
  }
  // If a thread polls several descriptors, only the first one is known (proc_evidence.cpp). With
  // epoll, no descriptor is known.
  if (wait.fd == 0) {
    return found(view, Cause::waits_for_input, "waiting for standard input" + where(view));
  }
  if (wait.path.starts_with("pipe:")) {
    return blocked_io(view, search);
  }
  const std::string on = wait.path.empty() ? "" : ", " + wait.path;
  return found(view, Cause::waits_for_socket, "waiting for a socket" + on + where(view));
}

OwnCause waiting(const View& view, const Search& search) {
  switch (view.thread.wait.kind) {
    case WaitKind::lock:
      return waits_for_futex(view, search);
    case WaitKind::read:
    case WaitKind::write:
    case WaitKind::open:
    case WaitKind::file_lock:
    case WaitKind::sync:
      if (const Stack* const stack = stack_of(view.process, view.thread.tid);
          stack != nullptr && in_multiprocessing(*stack)) {
        return waits_for_child(
            view, Cause::waits_for_child, "waiting for its child processes", search);
      }
      // read() and write() work on sockets, too.
      return view.thread.wait.path.starts_with("socket:") ? polls(view, search)
                                                          : blocked_io(view, search);
    case WaitKind::poll:
    case WaitKind::socket:
      return polls(view, search);
    case WaitKind::child:
      return waits_for_child(view, Cause::waits_for_child, "waiting for its child process", search);
    case WaitKind::sleep:
      return found(view, Cause::sleeps, "sleeping" + where(view));
    case WaitKind::signal:
      return found(view, Cause::sleeps, "waiting for a signal" + where(view));
    case WaitKind::other:
    case WaitKind::nothing:
      break;
  }
  // The kernel reports no system call for a thread that the stack collector has just resumed.
  const Stack* const native = stack_of(view.process, view.thread.tid, false);
  if (native != nullptr && sleeps(*native)) {
    return found(view, Cause::sleeps, "sleeping" + where(view));
  }
  const std::string call = view.thread.wait.call;
  return found(view, Cause::unknown, "idle" + (call.empty() ? "" : ", in " + call) + where(view));
}

OwnCause thread_cause(const View& view, const Search& search) {
  if (search.depth > kDepthMax) {
    return found(view, Cause::unknown, "waiting");
  }
  if (auto io = uninterruptible(view)) {
    return *io;
  }
  const Stack* const python = stack_of(view.process, view.thread.tid, true);
  const Stack* const native = stack_of(view.process, view.thread.tid, false);
  // Check for operations before CPU time, because a thread may spin while it waits for other ranks.
  const std::string operation = collective_of(python, native);
  if (!operation.empty()) {
    OwnCause out =
        found(view, Cause::waits_for_rank, fmt::format("waiting in {}{}", operation, where(view)));
    out.collective = operation;
    return out;
  }
  // A data loader waits on a pipe, a queue or a lock. That alone would not show that the reason is
  // in its worker processes.
  if (python != nullptr && in_data_loader(*python)) {
    return waits_for_child(view, Cause::data_loader, "waiting for its data loader", search);
  }
  return is_busy(view.thread) ? spinning(view) : waiting(view, search);
}

// A thread that holds the GIL without running blocks all other Python threads.
const ThreadFacts& thread_that_matters(const ProcessFacts& process) {
  for (const Stack& stack : process.stacks) {
    const ThreadFacts* const thread = stack.holds_gil ? find_thread(process, stack.tid) : nullptr;
    if (thread != nullptr && thread->state != 'R') {
      return *thread;
    }
  }
  return process.threads.front();
}

bool holds_gil(const ProcessFacts& process, const ThreadFacts& thread) {
  const Stack* const stack = stack_of(process, thread.tid, true);
  return stack != nullptr && stack->holds_gil;
}

}  // namespace

OwnCause own_cause(const RankEvidence& rank) {
  if (rank.processes.empty() || rank.processes.front().threads.empty()) {
    return {.reason = rank.ended ? "has exited" : "not inspectable (its process cannot be read)"};
  }
  const ProcessFacts& main = rank.processes.front();
  if (auto halt = halted(rank, main)) {
    return *halt;
  }
  const ThreadFacts& thread = thread_that_matters(main);
  std::set<pid_t> seen;
  OwnCause out = thread_cause({rank, main, thread}, Search{.seen = seen});
  if (holds_gil(main, thread) && thread.state != 'R') {
    out.reason += ", holding Python's GIL";
    // The main thread cannot run Python code before this thread releases the GIL.
    if (thread.tid != main.pid) {
      const Stack* const stack = stack_of(main, thread.tid, true);
      out.cause = Cause::deadlocked;
      out.reason = fmt::format("deadlocked: its thread {} is {}", stack->name, out.reason);
    }
  }
  return out;
}

}  // namespace muster::hang
