// SPDX-License-Identifier: Apache-2.0
// Shared by the files of the C interface: the contents of handles, per-thread errors, and
// compatibility with callers that use older or newer structs. Private to capi*.cpp.
#pragma once

#include "collective/communicator.hpp"
#include "muster/collective.h"

#include <algorithm>
#include <cstring>
#include <string>

struct muster_comm {
  muster::collective::Communicator comm;
};

struct muster_work {
  muster::collective::Work work;
};

namespace muster::collective {

// Stores the error for muster_last_error and returns its code.
[[nodiscard]] int keep(Error error);
// This thread's stored error.
[[nodiscard]] const Error& kept_error();

// The caller's options; null, 0 and missing members select the defaults.
[[nodiscard]] CommOptions comm_options_of(const muster_comm_options* given);

// Returns 0 for success; otherwise stores the error and returns its code.
[[nodiscard]] inline int finish(Result<void> done) {
  return done ? 0 : keep(std::move(done.error()));
}

// Copies the members that the caller's version of the struct has and zeroes the others.
template <class Struct>
[[nodiscard]] Struct taken(const Struct* given) {
  Struct out{};
  if (given != nullptr) {
    std::memcpy(&out, given, std::min(given->size, sizeof(out)));
  }
  return out;
}

// Fills the members that the caller's version of the struct has; leaves `size` unchanged.
template <class Struct>
void hand_out(const Struct& all, Struct* to) {
  const std::size_t size = std::min(to->size, sizeof(all));
  if (size > sizeof(std::size_t)) {
    std::memcpy(reinterpret_cast<char*>(to) + sizeof(std::size_t),
                reinterpret_cast<const char*>(&all) + sizeof(std::size_t),
                size - sizeof(std::size_t));
  }
}

[[nodiscard]] inline std::string text_of(const char* text, const char* otherwise = "") {
  return text == nullptr ? otherwise : text;
}

}  // namespace muster::collective
