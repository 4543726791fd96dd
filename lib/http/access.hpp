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
  // The listener is on a loopback address: a request must name this machine so. A web page from
  // elsewhere whose name was made to resolve to 127.0.0.1 (DNS rebinding) names its own.
  bool loopback_only = false;
  std::string key{};                      // empty: no key is needed
  std::vector<std::string> open_paths{};  // answered without the key
};

// Whether a Host header names this machine by a loopback address or as localhost, with any port.
[[nodiscard]] bool names_loopback(std::string_view host);

// Compares without an early exit, so that the time does not depend on the position of a mismatch.
[[nodiscard]] bool same_secret(std::string_view given, std::string_view secret);

// Whether the key can be part of a URL and of a cookie as it is.
[[nodiscard]] bool is_url_safe(std::string_view key);

// The answer that refuses the request, or redirects a browser that brought the key in its URL. None
// if the request may pass.
[[nodiscard]] std::optional<HttpResponse> refuse(const HttpRequest& request,
                                                 const HttpAccess& access);

}  // namespace muster
