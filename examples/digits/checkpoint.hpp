// SPDX-License-Identifier: Apache-2.0
// A checkpoint: what training needs to go on after an epoch, in one file. It is written aside,
// flushed to the disk and renamed, so a crash at any moment leaves the old one or the new one,
// whole.
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
  std::uint32_t epoch = 0;    // the last that is in it
  std::vector<float> values;  // parameters, then velocities
};

[[nodiscard]] Result<void> save(const std::string& path, const Checkpoint& checkpoint);

// None if there is no such file. Error: it is not a checkpoint of so many values, or damaged.
[[nodiscard]] Result<std::optional<Checkpoint>> load(const std::string& path, std::size_t count);

// FNV-1a over the bits: equal models have equal hashes. Not for secrets.
[[nodiscard]] std::uint64_t hash_of(std::span<const float> values);

}  // namespace digits
