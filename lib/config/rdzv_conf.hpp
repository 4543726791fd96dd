// SPDX-License-Identifier: Apache-2.0
// --rdzv-conf: "key=value,key=value". Unknown keys and literal quotes are taken as they are, since
// torchrun's own tests use both; the keys that mean something to a back end are checked. Pure.
#pragma once

#include "base/error.hpp"
#include "config/meeting_settings.hpp"

#include <map>
#include <string>
#include <string_view>

namespace muster {

// Error: usage.
[[nodiscard]] Result<std::map<std::string, std::string>> parse_rdzv_conf(std::string_view text);

// What the keys mean to `backend` ("static", "c10d"): torchrun's by its rules, but that fractions
// of a second are allowed; then ours, for both back ends. Error: usage.
[[nodiscard]] Result<MeetingSettings> read_meeting_settings(
    const std::map<std::string, std::string>& conf, std::string_view backend);

}  // namespace muster
