// SPDX-License-Identifier: Apache-2.0
// NcclCheck: for finding mistakes, compares before each collective what the ranks are about to call
// and refuses where they differ, with a message that quotes both sides; NCCL itself would hang or
// mix the data. Costs a small gather and a wait of the host each time, so it is asked for
// (MUSTER_COLLECTIVE_NCCL_CHECK=1, on all ranks). Sends and receives are not compared
// here: the recorders of a host are (Communicator::Impl::disagreement).
#pragma once

#include "collective/transport/transport.hpp"

#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace muster::collective::nccl {

// Room for one rank's text.
inline constexpr std::size_t kTextBytes = 128;

// "broadcast #119 f32[8] root 0", cut to fit.
[[nodiscard]] std::array<char, kTextBytes> text_of(const Request& request);

// A message if the ranks' texts, kTextBytes each, are not all the same. Pure.
[[nodiscard]] std::optional<std::string> compare_texts(const std::vector<char>& all);

}  // namespace muster::collective::nccl
