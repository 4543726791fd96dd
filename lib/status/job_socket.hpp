// SPDX-License-Identifier: Apache-2.0
// How musterctl finds the jobs on its host: each launcher listens on a Unix socket in the abstract
// namespace, with this prefix and a random suffix as its name. Such a socket needs no directory and
// no cleanup, even if the launcher is killed. Connections from other users are refused. Read-only
// data.
#pragma once

#include <string_view>

namespace muster {

inline constexpr std::string_view kJobSocketPrefix = "muster-job-";

// Served only on that socket: the --http URL with its key, or an empty response without --http.
inline constexpr std::string_view kJobUrlPath = "/v1/url";

// Begins a check of all nodes (musterctl check). The response is empty, or the reason why no check
// can begin. The verdict is the next event `check`.
inline constexpr std::string_view kJobCheckPath = "/v1/check";

}  // namespace muster
