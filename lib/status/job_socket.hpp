// SPDX-License-Identifier: Apache-2.0
// How musterctl finds the jobs on its host: each launcher listens on a Unix socket in the abstract
// namespace, whose name has this prefix and a random suffix. Nothing needs cleanup however the
// launcher dies, and no directory is needed. Connections from other users are refused. Read-only
// data.
#pragma once

#include <string_view>

namespace muster {

inline constexpr std::string_view kJobSocketPrefix = "muster-job-";

// Served on that socket only: the --http URL with its key; empty without --http.
inline constexpr std::string_view kJobUrlPath = "/v1/url";

}  // namespace muster
