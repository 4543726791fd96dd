// SPDX-License-Identifier: Apache-2.0
// MUSTER_MARK("what was decided"): marks an odd branch of a core. Nothing at all in what users run;
// the simulator compiles the cores with MUSTER_MARKS and counts which marks its seeds reach, so
// that a branch that no seed exercises is known by name. Any thread; used by cores.
#pragma once

#ifdef MUSTER_MARKS

namespace muster {

struct Mark {
  const char* name;
  unsigned long count;
};

}  // namespace muster

// The linker gathers all marks between __start_muster_marks and __stop_muster_marks, or those of a
// section of another name.
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
