// SPDX-License-Identifier: Apache-2.0
// Encodes requests for the store, without the greeting.
#pragma once

#include "rendezvous/wire/store_encoder.hpp"

#include <string>
#include <vector>

namespace muster::testing {

inline std::string with_strings(Opcode opcode, const std::vector<std::string>& strings) {
  std::string out;
  RequestWriter writer(out, opcode);
  for (const std::string& string : strings) {
    writer.string(string);
  }
  return out;
}

inline std::string with_keys(Opcode opcode, const std::vector<std::string>& keys) {
  std::string out;
  RequestWriter(out, opcode).keys(keys);
  return out;
}

}  // namespace muster::testing
