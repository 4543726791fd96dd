// SPDX-License-Identifier: Apache-2.0
// dump_json: formats a JSON value as text. Strings may contain arbitrary bytes, as file and host
// names do. Bytes that are not UTF-8 are escaped (\\xff), so different names remain different.
// Pure. Works with the classes of nlohmann/json.hpp, which this header does not include.
#pragma once

#include "base/printable.hpp"

#include <string>

namespace muster {

template <class Json>
void escape_strings(Json& json) {
  if (json.is_string()) {
    auto& text = json.template get_ref<std::string&>();
    text = as_utf8(text);
  } else if (json.is_structured()) {
    for (auto& member : json) {
      escape_strings(member);
    }
  }
}

// With `indent` -1, the output is a single line.
template <class Json>
[[nodiscard]] std::string dump_json(Json json, int indent = -1) {
  escape_strings(json);
  return json.dump(indent, ' ', false, Json::error_handler_t::replace);
}

}  // namespace muster
