// SPDX-License-Identifier: Apache-2.0
#include "platform/json_text.hpp"

#include "base/text.hpp"
#include "platform/facts.hpp"
#include "platform/host_list.hpp"

#include <nlohmann/json.hpp>

namespace muster {
namespace {

using Json = nlohmann::json;

constexpr int kDepthMax = 8;

std::optional<Json> parse(std::string_view text) {
  if (text.size() > kJsonMax) {
    return std::nullopt;
  }
  const auto shallow = [](int depth, Json::parse_event_t, Json&) { return depth <= kDepthMax; };
  Json out = Json::parse(text, shallow, false);
  return out.is_discarded() ? std::nullopt : std::optional(std::move(out));
}

std::vector<std::string> texts(const Json& list) {
  std::vector<std::string> out;
  if (!list.is_array() || list.size() > kHostsMax) {
    return out;
  }
  for (const Json& one : list) {
    if (!one.is_string() || one.get_ref<const std::string&>().size() > kWordMax) {
      return {};
    }
    out.push_back(one.get<std::string>());
  }
  return out;
}

const Json* member(const Json& object, const std::string& name) {
  const auto found = object.is_object() ? object.find(name) : object.end();
  return found == object.end() ? nullptr : &*found;
}

}  // namespace

std::optional<Json> json_object(std::string_view text) {
  auto out = parse(text);
  return out && out->is_object() ? std::move(out) : std::nullopt;
}

std::string text_in(const Json& object, const std::string& name) {
  const Json* found = member(object, name);
  return found != nullptr && found->is_string() ? found->get<std::string>() : "";
}

int number_in(const Json& object, const std::string& name) {
  const Json* found = member(object, name);
  const bool whole = found != nullptr && found->is_number_integer();
  const auto value = whole ? found->get<std::int64_t>() : -1;
  return value >= 0 && value <= static_cast<std::int64_t>(kHostsMax) ? static_cast<int>(value) : -1;
}

std::vector<std::string> texts_in(const Json& object, const std::string& name) {
  const Json* found = member(object, name);
  return found == nullptr ? std::vector<std::string>{} : texts(*found);
}

std::vector<std::string> json_texts(std::string_view text) {
  const auto parsed = parse(text);
  return parsed ? texts(*parsed) : std::vector<std::string>{};
}

}  // namespace muster
