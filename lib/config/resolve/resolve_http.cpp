// SPDX-License-Identifier: Apache-2.0
// --http=[ADDRESS:]PORT and --http-key. This step opens no file.
#include "base/text.hpp"
#include "config/resolve/resolution.hpp"

namespace muster {
namespace {

constexpr std::string_view kOff = "off";
constexpr std::string_view kNoKey = "none";
constexpr const char* kLoopback = "127.0.0.1";

// True if the text consists only of digits, without signs or blanks.
bool is_number(const std::string& text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string::npos;
}

bool is_address(const std::string& host) {
  return host.find(':') != std::string::npos ||
         (host.find('.') != std::string::npos &&
          host.find_first_not_of("0123456789.") == std::string::npos);
}

}  // namespace

Result<void> resolve_http(const Resolution& r) {
  const std::string& key = r.layers.text(OptionId::http_key);
  r.config().http_has_key = key != kNoKey;
  r.config().http_key_file = key == kNoKey ? "" : key;
  r.show(OptionId::http_key, key.empty() ? "random" : key);
  const std::string& text = r.layers.text(OptionId::http);
  if (text == kOff) {
    return {};
  }
  const auto where = parse_endpoint(is_number(text) ? kLoopback + (":" + text) : text);
  if (!where) {
    return r.layers.refuse(OptionId::http, where.error().message);
  }
  if (!where->port) {
    return r.layers.refuse(OptionId::http, "has no port; use PORT or ADDRESS:PORT");
  }
  Endpoint out = *where;
  if (to_lower(out.host) == "localhost") {
    out.host = kLoopback;
  }
  if (!is_address(out.host)) {
    return r.layers.refuse(OptionId::http,
                           "'" + out.host +
                               "' is not a numeric address; use an address of this host, or only "
                               "a port for 127.0.0.1");
  }
  r.show(OptionId::http, out.describe());
  r.config().http = std::move(out);
  return {};
}

}  // namespace muster
