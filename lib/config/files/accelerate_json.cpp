// SPDX-License-Identifier: Apache-2.0
#include "config/files/accelerate_json.hpp"

#include "platform/json_text.hpp"

#include <nlohmann/json.hpp>

namespace muster {
namespace {

using Json = nlohmann::json;

std::string one_line(const Json& value) {
  return value.dump(-1, ' ', true, Json::error_handler_t::replace);
}

// Recursion is safe because the parser limits the nesting depth.
void append(const Json& object, const std::string& indent, std::string& out) {
  for (const auto& [key, value] : object.items()) {
    const std::string quoted = one_line(key);
    out += indent + quoted.substr(1, quoted.size() - 2) + ":";
    if (value.is_object() && !value.empty()) {
      out += "\n";
      append(value, indent + "  ", out);
    } else {
      out += " " + one_line(value) + "\n";
    }
  }
}

}  // namespace

std::optional<std::string> yaml_of_json(std::string_view text) {
  const auto object = json_object(text);
  if (!object) {
    return std::nullopt;
  }
  std::string out;
  append(*object, "", out);
  return out;
}

}  // namespace muster
