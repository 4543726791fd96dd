// SPDX-License-Identifier: Apache-2.0
#include "hang/judge/stack_places.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <string_view>

namespace muster::hang {
namespace {

constexpr std::size_t kStackLinesMax = 12;

// If a path contains one of these, the file counts as library code.
constexpr std::array<std::string_view, 8> kLibraries{"/lib/python3",
                                                     "/site-packages/",
                                                     "/dist-packages/",
                                                     "<frozen",
                                                     "/torch/",
                                                     "/lib/python/muster/",
                                                     "/runpy.py",
                                                     "<string>:"};

// Functions of torch.distributed and of muster's Python package. wait() belongs to the handle of an
// asynchronous operation.
constexpr std::array<std::string_view, 16> kOperations{"all_reduce",
                                                       "barrier",
                                                       "monitored_barrier",
                                                       "broadcast",
                                                       "reduce",
                                                       "all_gather",
                                                       "all_gather_into_tensor",
                                                       "reduce_scatter",
                                                       "reduce_scatter_tensor",
                                                       "all_to_all",
                                                       "all_to_all_single",
                                                       "gather",
                                                       "scatter",
                                                       "send",
                                                       "recv",
                                                       "wait"};

// Name prefixes of functions in C++ collective libraries.
constexpr std::array<std::string_view, 4> kNativeCollectives{
    "gloo::", "c10d::", "muster::collective", "ncclProxy"};

bool is_library(const Frame& frame) {
  return std::ranges::any_of(kLibraries, [&](std::string_view part) {
    return frame.file.find(part) != std::string::npos;
  });
}

// Names of Python functions may be prefixed with their class, as in "Queue.get".
std::string_view bare_name(std::string_view name) {
  const auto dot = name.rfind('.');
  return dot == std::string_view::npos ? name : name.substr(dot + 1);
}

bool is_in(const Frame& frame, std::string_view file) {
  return frame.file.ends_with(file);
}

bool any_frame_in(const Stack& stack, std::string_view part) {
  return std::ranges::any_of(
      stack.frames, [&](const Frame& frame) { return frame.file.find(part) != std::string::npos; });
}

bool any_function(const Stack& stack, std::string_view part) {
  return std::ranges::any_of(stack.frames, [&](const Frame& frame) {
    return frame.function.find(part) != std::string::npos;
  });
}

// True for a frame of the Python interpreter itself, between Python code and C functions.
bool is_interpreter(const Frame& native) {
  static constexpr std::array<std::string_view, 5> names{"_Py", "Py", "ffi_", "take_gil", "_start"};
  return std::ranges::any_of(
      names, [&](std::string_view name) { return native.function.starts_with(name); });
}

// muster's own frames. They are ignored, because the flight recorder already shows in which
// operation the thread waits.
bool is_ours(const Frame& native) {
  return native.function.find("muster::") != std::string::npos ||
         native.function.starts_with("muster_");
}

// These functions show how a thread waits, but not what it waits for. eu-stack prints no name for
// some frames.
bool is_libc(const Frame& frame) {
  static constexpr std::array<std::string_view, 10> names{"pthread_",
                                                          "syscall",
                                                          "futex",
                                                          "std::",
                                                          "__",
                                                          "clock_nanosleep",
                                                          "nanosleep",
                                                          "sem_wait",
                                                          "___pthread",
                                                          "_dl_"};
  return frame.function.empty() || std::ranges::any_of(names, [&](std::string_view name) {
           return frame.function.starts_with(name);
         });
}

}  // namespace

const Stack* stack_of(const ProcessFacts& process, pid_t tid, bool python) {
  const auto found = std::ranges::find_if(process.stacks, [&](const Stack& stack) {
    return stack.tid == tid && stack.python == python && !stack.frames.empty();
  });
  return found == process.stacks.end() ? nullptr : &*found;
}

const Stack* stack_of(const ProcessFacts& process, pid_t tid) {
  const Stack* const python = stack_of(process, tid, true);
  return python != nullptr ? python : stack_of(process, tid, false);
}

std::string describe(const Frame& frame) {
  if (frame.file.empty()) {
    return frame.function;
  }
  const std::string file = frame.file.substr(frame.file.rfind('/') + 1);
  return fmt::format("{} ({}:{})", frame.function, file, frame.line);
}

std::vector<std::string> lines_of(const Stack* stack) {
  std::vector<std::string> out;
  if (stack == nullptr) {
    return out;
  }
  for (const Frame& frame : stack->frames) {
    if (out.size() == kStackLinesMax) {
      break;
    }
    out.push_back(describe(frame));
  }
  return out;
}

const Frame* own_frame(const Stack* stack) {
  if (stack == nullptr || stack->frames.empty()) {
    return nullptr;
  }
  const auto own = std::ranges::find_if(stack->frames, [&](const Frame& frame) {
    return stack->python ? !is_library(frame) : !is_libc(frame);
  });
  // If all frames belong to libraries, the innermost one is the best available.
  return own == stack->frames.end() ? &stack->frames.front() : &*own;
}

const Frame* own_native_frame(const Stack* native) {
  if (native == nullptr) {
    return nullptr;
  }
  for (const Frame& frame : native->frames) {
    // The outer frames are those of Python code, which Python's own stack shows better.
    if (is_interpreter(frame)) {
      return nullptr;
    }
    if (!is_libc(frame) && !is_ours(frame)) {
      return &frame;
    }
  }
  return nullptr;
}

std::string collective_of(const Stack* python, const Stack* native) {
  if (python != nullptr) {
    for (const Frame& frame : python->frames) {
      const bool library = frame.file.find("/torch/distributed/") != std::string::npos ||
                           frame.file.find("/muster/") != std::string::npos;
      const auto name = bare_name(frame.function);
      if (library && std::ranges::find(kOperations, name) != kOperations.end()) {
        return std::string(name);
      }
      if (!is_library(frame)) {
        break;  // user code that an operation calls does not wait for others
      }
    }
  }
  // No Python frame shows the operations that C++ code calls, as in the backward pass of
  // DistributedDataParallel.
  if (native != nullptr && std::ranges::any_of(kNativeCollectives, [&](std::string_view name) {
        return any_function(*native, name);
      })) {
    return "a collective operation";
  }
  return "";
}

LockKind lock_kind(const Stack& stack) {
  if (!stack.python) {
    if (any_function(stack, "pthread_join") || any_function(stack, "pthread_clockjoin")) {
      return LockKind::join;
    }
    return any_function(stack, "cond_wait") || any_function(stack, "cond_timedwait") ||
                   any_function(stack, "condition_variable")
               ? LockKind::condition
               : LockKind::lock;
  }
  bool condition = false;
  for (const Frame& frame : stack.frames) {
    // The wait consists of the library frames inside the innermost user function. Functions further
    // out may have the same names for other reasons.
    if (!is_library(frame)) {
      break;
    }
    const auto name = bare_name(frame.function);
    if (is_in(frame, "/queue.py")) {
      return LockKind::queue;
    }
    if (is_in(frame, "/threading.py") &&
        (name == "join" || name == "_wait_for_tstate_lock" || name == "_shutdown")) {
      return LockKind::join;
    }
    condition = condition || (is_in(frame, "/threading.py") && name == "wait") ||
                is_in(frame, "/concurrent/futures/_base.py");
  }
  return condition ? LockKind::condition : LockKind::lock;
}

bool waits_for_lock(const Stack& stack) {
  return lock_kind(stack) == LockKind::lock && !idles(stack);
}

// Threads of pools, queue feeders, progress bars, compile workers and muster_torch_flights normally
// wait for work. Such a wait is not a deadlock.
bool idles(const Stack& stack) {
  if (!stack.python) {
    return any_function(stack, "cond_wait") || any_function(stack, "epoll_wait");
  }
  return any_frame_in(stack, "/concurrent/futures/thread.py") ||
         any_frame_in(stack, "/data/_utils/pin_memory.py") || any_frame_in(stack, "/tqdm/") ||
         any_frame_in(stack, "/torch/_inductor/") ||
         any_frame_in(stack, "/muster_torch_flights.py") ||
         (any_frame_in(stack, "/multiprocessing/queues.py") && any_function(stack, "_feed"));
}

bool sleeps(const Stack& native) {
  return any_function(native, "nanosleep");
}

bool waits_for_gpu(const Stack& native) {
  static constexpr std::array<std::string_view, 7> names{"cudaStreamSynchronize",
                                                         "cudaEventSynchronize",
                                                         "cudaDeviceSynchronize",
                                                         "cuStreamSynchronize",
                                                         "cuEventSynchronize",
                                                         "cuCtxSynchronize",
                                                         "cudaMemcpy"};
  return std::ranges::any_of(names,
                             [&](std::string_view name) { return any_function(native, name); });
}

// Only the iterator that uses worker processes has these functions. With num_workers=0 the rank
// loads the data itself.
bool in_data_loader(const Stack& stack) {
  return any_frame_in(stack, "/torch/utils/data/dataloader.py") &&
         (any_function(stack, "_try_get_data") || any_function(stack, "_get_data"));
}

bool in_multiprocessing(const Stack& stack) {
  for (const Frame& frame : stack.frames) {
    if (frame.file.find("/multiprocessing/") != std::string::npos) {
      return true;
    }
    // In a process started by multiprocessing, multiprocessing's own frames are at the outer end of
    // every stack, so the search stops at user code.
    if (!is_library(frame)) {
      return false;
    }
  }
  return false;
}

}  // namespace muster::hang
