// SPDX-License-Identifier: Apache-2.0
// Decides whether a request may reach the site, based on its method, its Host header and the key. A
// browser sends the key once as ?key=KEY and then as a cookie; programs send Authorization: Bearer.
// Pure.
#pragma once

#include "http/site.hpp"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace muster {

struct HttpAccess {
  // True if the listener is on a loopback address. The Host header must then be a loopback name.
  // This blocks DNS rebinding, where an attacker's domain name resolves to 127.0.0.1.
  bool loopback_only = false;
  std::string key{};                      // empty if no key is needed
  std::vector<std::string> open_paths{};  // served without the key
};

// True if a Host header is localhost or a loopback address, with any port.
[[nodiscard]] bool names_loopback(std::string_view host);

// Constant-time comparison: the time does not depend on the position of a mismatch.
[[nodiscard]] bool same_secret(std::string_view given, std::string_view secret);

// True if the key can be used in a URL and a cookie without escaping.
[[nodiscard]] bool is_url_safe(std::string_view key);

// The response that rejects the request, or that redirects a browser that sent the key in the URL.
// None if the request is allowed.
[[nodiscard]] std::optional<HttpResponse> refuse(const HttpRequest& request,
                                                 const HttpAccess& access);

}  // namespace muster
