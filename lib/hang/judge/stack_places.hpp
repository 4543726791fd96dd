// SPDX-License-Identifier: Apache-2.0
// Interprets the functions on a stack: a collective operation, a lock, a queue, a data loader. No
// other code contains function names from Python's standard library, PyTorch and glibc. Used by
// own_cause. Pure.
#pragma once

#include "hang/evidence.hpp"

#include <string>
#include <vector>

namespace muster::hang {

// The thread's Python or native stack. Null if there is none.
[[nodiscard]] const Stack* stack_of(const ProcessFacts& process, pid_t tid, bool python);
[[nodiscard]] const Stack* stack_of(const ProcessFacts& process, pid_t tid);

// For example "main (train.py:12)" or "spin".
[[nodiscard]] std::string describe(const Frame& frame);

// The stack as lines, limited to the number that is useful to a reader.
[[nodiscard]] std::vector<std::string> lines_of(const Stack* stack);

// The innermost frame of user code, outside Python's library, PyTorch and libc. Null if there is
// none.
[[nodiscard]] const Frame* own_frame(const Stack* stack);

// The C function that a thread is in: the innermost one outside libc, muster and Python's
// interpreter, because their functions do not show what the program is doing. Null if there is
// none.
[[nodiscard]] const Frame* own_native_frame(const Stack* native);

// The collective library operation in which the thread waits, such as "all_reduce". Empty if there
// is none.
[[nodiscard]] std::string collective_of(const Stack* python, const Stack* native);

enum class LockKind { lock, condition, queue, join };

// What a thread that waits on a futex is actually waiting for.
[[nodiscard]] LockKind lock_kind(const Stack& stack);
[[nodiscard]] bool waits_for_lock(const Stack& stack);

// True for an idle thread that waits for work, as in a thread pool.
[[nodiscard]] bool idles(const Stack& stack);

// True if the thread is in nanosleep() or a wrapper of it.
[[nodiscard]] bool sleeps(const Stack& native);

// True if the thread waits for a GPU. CUDA may spin during such a wait.
[[nodiscard]] bool waits_for_gpu(const Stack& native);

// True if the thread waits for the worker processes of a DataLoader or of multiprocessing.
[[nodiscard]] bool in_data_loader(const Stack& stack);
[[nodiscard]] bool in_multiprocessing(const Stack& stack);

}  // namespace muster::hang
