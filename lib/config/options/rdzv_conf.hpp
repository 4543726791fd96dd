// SPDX-License-Identifier: Apache-2.0
// --rdzv-conf: "key=value,key=value". Unknown keys and literal quotes are taken as they are, since
// torchrun's own tests use both; keys with a meaning are checked. The table of keys is what the
// manual page, --explain and the warnings about mistyped keys are made from. Pure.
#pragma once

#include "base/error.hpp"
#include "config/rendezvous_config.hpp"

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace muster {

struct RdzvKey {
  std::string_view name;
  std::string_view default_value{};  // as it would be typed
  bool in_c10d = false;              // has an effect with --rdzv-backend=c10d
  bool in_static = false;            // has an effect with --rdzv-backend=static
  std::string_view help{};           // a sentence; for a key without an effect, why it has none
};

[[nodiscard]] std::span<const RdzvKey> rdzv_keys();

// Of the keys in `conf` those that we know and that do nothing with this back end.
[[nodiscard]] std::vector<std::string> keys_without_effect(
    const std::map<std::string, std::string>& conf, std::string_view backend);

// One warning for each key that is unknown and nearly one that we know.
[[nodiscard]] std::vector<std::string> mistyped_keys(
    const std::map<std::string, std::string>& conf);

// Error: usage.
[[nodiscard]] Result<std::map<std::string, std::string>> parse_rdzv_conf(std::string_view text);

// What the keys mean to `backend` ("static", "c10d"): torchrun's by its rules, but that fractions
// of a second are allowed; then ours, for both back ends. Error: usage.
[[nodiscard]] Result<RendezvousConfig> read_rendezvous_config(
    const std::map<std::string, std::string>& conf, std::string_view backend);

}  // namespace muster
