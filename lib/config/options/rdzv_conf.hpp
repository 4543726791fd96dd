// SPDX-License-Identifier: Apache-2.0
// --rdzv-conf: "key=value,key=value". Unknown keys and literal quotes are kept unchanged, because
// torchrun's own tests use both. Known keys are validated. The manual page, --explain and the
// warnings about mistyped keys are generated from the table of keys. Pure.
#pragma once

#include "base/error.hpp"
#include "config/rendezvous_config.hpp"

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace muster {

// A parsed value. Each key uses only some of the members.
struct RdzvValue {
  double number = 0;
  bool is_yes = false;
  bool is_never = false;
};

struct RdzvKey {
  std::string_view name;
  std::string_view default_value;  // as typed on a command line; may be empty
  bool in_c10d;                    // has an effect with --rdzv-backend=c10d
  bool in_static;                  // has an effect with --rdzv-backend=static
  std::string (*check)(const std::string& text, RdzvValue& out);  // returns the violated rule
  void (*store)(const RdzvValue& value, RendezvousConfig& out);   // null if the value is not stored
  std::string_view help;  // one sentence; if the key has no effect, the reason
};

[[nodiscard]] std::span<const RdzvKey> rdzv_keys();

// The known keys in `conf` that have no effect with this backend.
[[nodiscard]] std::vector<std::string> keys_without_effect(
    const std::map<std::string, std::string>& conf, std::string_view backend);

// One warning for each unknown key that resembles a known one.
[[nodiscard]] std::vector<std::string> mistyped_keys(
    const std::map<std::string, std::string>& conf);

// Error: usage.
[[nodiscard]] Result<std::map<std::string, std::string>> parse_rdzv_conf(std::string_view text);

// Interprets the keys for `backend` ("static" or "c10d"). torchrun's keys follow its rules, except
// that fractions of a second are allowed. muster's own keys apply to both backends. Error: usage.
[[nodiscard]] Result<RendezvousConfig> read_rendezvous_config(
    const std::map<std::string, std::string>& conf, std::string_view backend);

}  // namespace muster
