// SPDX-License-Identifier: Apache-2.0
// NcclCheck: a debugging aid that compares the ranks' calls before each collective. A difference
// is an error that quotes both sides; NCCL itself would hang or mix the data. Each check costs a
// small gather and a host wait, so it is optional (MUSTER_COLLECTIVE_NCCL_CHECK=1, on all ranks).
// It does not compare sends and receives; the host's flight recorders do that
// (Communicator::Impl::disagreement).
#pragma once

#include "collective/transport/transport.hpp"

#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace muster::collective::nccl {

// Size of one rank's text.
inline constexpr std::size_t kTextBytes = 128;

// Example: "broadcast #119 f32[8] root 0"; truncated to fit.
[[nodiscard]] std::array<char, kTextBytes> text_of(const Request& request);

// Returns an error text if the ranks' texts, kTextBytes each, differ. Pure.
[[nodiscard]] std::optional<std::string> compare_texts(const std::vector<char>& all);

}  // namespace muster::collective::nccl
