// SPDX-License-Identifier: Apache-2.0
// Where musterctl finds the jobs of its machine: each launcher listens on a Unix socket of this
// name, followed by letters of its own, in the abstract name space. So there is nothing to clean
// up, whatever kills the launcher, and no folder is needed; whoever connects from another user is
// turned away. Read-only data.
#pragma once

#include <string_view>

namespace muster {

inline constexpr std::string_view kJobSocketPrefix = "muster-job-";

// Answered on that socket only: the URL of --http with its key; empty without --http.
inline constexpr std::string_view kJobUrlPath = "/v1/url";

}  // namespace muster
