// SPDX-License-Identifier: Apache-2.0
// MUSTER_MARK("what was decided"): marks a rare branch in a core. It compiles to nothing in release
// builds. The simulator compiles the cores with MUSTER_MARKS, counts the marks that its seeds
// reach, and lists uncovered branches by name. Thread-safe; used by cores.
#pragma once

#ifdef MUSTER_MARKS

namespace muster {

struct Mark {
  const char* name;
  unsigned long count;
};

}  // namespace muster

// The linker places all marks between __start_muster_marks and __stop_muster_marks, or the
// equivalent symbols if the section has another name.
#ifndef MUSTER_MARK_SECTION
#define MUSTER_MARK_SECTION "muster_marks"
#endif

#define MUSTER_MARK(text)                                                                        \
  do {                                                                                           \
    [[gnu::section(MUSTER_MARK_SECTION), gnu::used]] static ::muster::Mark muster_mark{text, 0}; \
    ++muster_mark.count;                                                                         \
  } while (false)

#else

#define MUSTER_MARK(text) \
  do {                    \
  } while (false)

#endif
