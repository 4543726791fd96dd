// SPDX-License-Identifier: Apache-2.0
// The meaning of the functions on a stack: a collective operation, a lock, a queue, a data loader.
// The only place with names of Python's standard library, PyTorch and glibc. Used by own_cause.
// Pure.
#pragma once

#include "hang/evidence.hpp"

#include <string>
#include <vector>

namespace muster::hang {

// A thread's stack of that kind; or Python's if there is one, else native. Null: none.
[[nodiscard]] const Stack* stack_of(const ProcessFacts& process, pid_t tid, bool python);
[[nodiscard]] const Stack* stack_of(const ProcessFacts& process, pid_t tid);

// "main (train.py:12)", "spin".
[[nodiscard]] std::string describe(const Frame& frame);

// At most as many lines as are useful to a reader.
[[nodiscard]] std::vector<std::string> lines_of(const Stack* stack);

// The innermost frame of user code, outside Python's library, PyTorch and libc. Null: no stack.
[[nodiscard]] const Frame* own_frame(const Stack* stack);

// The C function that a thread is in: the innermost one outside libc, muster and Python's
// interpreter, whose functions do not show what a program does. Null: none.
[[nodiscard]] const Frame* own_native_frame(const Stack* native);

// The operation of a collective library that the thread waits in: "all_reduce"; empty: none.
[[nodiscard]] std::string collective_of(const Stack* python, const Stack* native);

enum class LockKind { lock, condition, queue, join };

// What a thread that waits on a futex is waiting for.
[[nodiscard]] LockKind lock_kind(const Stack& stack);
[[nodiscard]] bool waits_for_lock(const Stack& stack);

// An idle thread that waits for work, as in a pool.
[[nodiscard]] bool idles(const Stack& stack);

// The thread is in nanosleep() or a function on top of it.
[[nodiscard]] bool sleeps(const Stack& native);

// It waits until a GPU has finished; CUDA may spin meanwhile.
[[nodiscard]] bool waits_for_gpu(const Stack& native);

// It waits for worker processes of a DataLoader, or for those of multiprocessing.
[[nodiscard]] bool in_data_loader(const Stack& stack);
[[nodiscard]] bool in_multiprocessing(const Stack& stack);

}  // namespace muster::hang
