// SPDX-License-Identifier: Apache-2.0
// A checkpoint: the state for resuming after an epoch, in one file. It is written to a temporary
// file, flushed to disk and renamed. A crash at any moment thus leaves either the complete old file
// or the complete new one.
#pragma once

#include <cstdint>
#include <muster/result.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace digits {

using muster::Result;

struct Checkpoint {
  std::uint32_t epoch = 0;    // the last completed epoch
  std::vector<float> values;  // parameters, then velocities
};

[[nodiscard]] Result<void> save(const std::string& path, const Checkpoint& checkpoint);

// None if there is no such file. Error: not a checkpoint with this number of values, or damaged.
[[nodiscard]] Result<std::optional<Checkpoint>> load(const std::string& path, std::size_t count);

// FNV-1a over the bits: equal models have equal hashes. Not cryptographic.
[[nodiscard]] std::uint64_t hash_of(std::span<const float> values);

}  // namespace digits
