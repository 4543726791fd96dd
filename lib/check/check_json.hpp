// SPDX-License-Identifier: Apache-2.0
// JSON for the figures and the verdict of --check, which travel between processes and nodes. The
// decoders accept any input and ignore what they do not know. Pure; thread-safe.
#pragma once

#include "check/judge.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace muster::check {

// Limits on the texts of other nodes.
inline constexpr std::size_t kCheckTextsMax = 20;
inline constexpr std::size_t kCheckTextMax = 300;
inline constexpr std::size_t kCheckLinksMax = 64;

[[nodiscard]] std::string encode(const NodeFigures& figures);
[[nodiscard]] NodeFigures decode_figures(std::string_view json);

// Drops findings until the text has at most `bytes_max` bytes. The list of bad nodes stays
// complete.
[[nodiscard]] std::string encode(const Verdict& verdict, std::size_t bytes_max = SIZE_MAX);
[[nodiscard]] Verdict decode_verdict(std::string_view json);

}  // namespace muster::check
