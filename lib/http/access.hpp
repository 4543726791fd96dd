// SPDX-License-Identifier: Apache-2.0
// Decides whether a request reaches the site: its method, its Host header, and the key. A browser
// sends the key once as ?key=KEY and then as a cookie; programs send Authorization: Bearer. Pure.
#pragma once

#include "http/site.hpp"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace muster {

struct HttpAccess {
  // True for a listener on a loopback address: the Host header must be a loopback name. This blocks
  // DNS rebinding, where a foreign name resolves to 127.0.0.1.
  bool loopback_only = false;
  std::string key{};                      // empty: no key needed
  std::vector<std::string> open_paths{};  // served without the key
};

// Whether a Host header is localhost or a loopback address, with any port.
[[nodiscard]] bool names_loopback(std::string_view host);

// Constant-time comparison: the time does not depend on the position of a mismatch.
[[nodiscard]] bool same_secret(std::string_view given, std::string_view secret);

// Whether the key can be used in a URL and a cookie without escaping.
[[nodiscard]] bool is_url_safe(std::string_view key);

// The response that rejects the request, or redirects a browser that sent the key in the URL. None
// if the request is allowed.
[[nodiscard]] std::optional<HttpResponse> refuse(const HttpRequest& request,
                                                 const HttpAccess& access);

}  // namespace muster
