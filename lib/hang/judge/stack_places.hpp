// SPDX-License-Identifier: Apache-2.0
// What the functions on a stack mean: a collective operation, a lock, a queue, a data loader. Names
// of Python's standard library, PyTorch and glibc are here and nowhere else. Used by own_cause.
// Pure.
#pragma once

#include "hang/evidence.hpp"

#include <string>
#include <vector>

namespace muster::hang {

// Of a thread: of that kind; Python's where there is one, else native. Null: none.
[[nodiscard]] const Stack* stack_of(const ProcessFacts& process, pid_t tid, bool python);
[[nodiscard]] const Stack* stack_of(const ProcessFacts& process, pid_t tid);

// "main (train.py:12)", "spin".
[[nodiscard]] std::string describe(const Frame& frame);

// At most as many lines as a reader wants.
[[nodiscard]] std::vector<std::string> lines_of(const Stack* stack);

// The innermost frame outside of Python's library, PyTorch and libc: the user's. Null: no stack.
[[nodiscard]] const Frame* own_frame(const Stack* stack);

// The function of C code that a thread is in: the innermost one that belongs neither to libc, nor
// to muster, nor to Python's interpreter, which say nothing about what a program does. Null: none.
[[nodiscard]] const Frame* own_native_frame(const Stack* native);

// The operation of a collective library that the thread waits in: "all_reduce"; empty: none.
[[nodiscard]] std::string collective_of(const Stack* python, const Stack* native);

enum class LockKind { lock, condition, queue, join };

// What a thread that waits for a futex waits for.
[[nodiscard]] LockKind lock_kind(const Stack& stack);
[[nodiscard]] bool waits_for_lock(const Stack& stack);

// A thread that waits for work, as those of a pool do.
[[nodiscard]] bool idles(const Stack& stack);

// It waits until a GPU has done its work; CUDA lets a thread run meanwhile.
[[nodiscard]] bool waits_for_gpu(const Stack& native);

// It waits for the processes that a DataLoader started; for those of multiprocessing.
[[nodiscard]] bool in_data_loader(const Stack& stack);
[[nodiscard]] bool in_multiprocessing(const Stack& stack);

}  // namespace muster::hang
