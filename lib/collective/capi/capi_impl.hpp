// SPDX-License-Identifier: Apache-2.0
// What the files of the C binding share: what its handles hold, errors of the calling thread,
// structs of callers of any age. Private to capi*.cpp.
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

// Keeps it for muster_last_error; the number to return.
[[nodiscard]] int keep(Error error);
// What is kept, of this thread.
[[nodiscard]] const Error& kept_error();

// For calls that give nothing but their success.
[[nodiscard]] inline int finish(Result<void> done) {
  return done ? 0 : keep(std::move(done.error()));
}

// What the caller has of a struct, the rest as zeros.
template <class Struct>
[[nodiscard]] Struct taken(const Struct* given) {
  Struct out{};
  if (given != nullptr) {
    std::memcpy(&out, given, std::min(given->size, sizeof(out)));
  }
  return out;
}

// Fills what the caller has of a struct; its size stays.
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
