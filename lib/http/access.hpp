// SPDX-License-Identifier: Apache-2.0
// Who may ask: the one place that lets a request through to the site or refuses it. A token would
// be checked here. Pure.
#pragma once

#include "http/site.hpp"

#include <optional>
#include <string_view>

namespace muster {

struct HttpAccess {
  // The listener is on a loopback address: a request must name this machine so. A web page from
  // elsewhere whose name was made to resolve to 127.0.0.1 (DNS rebinding) names its own.
  bool loopback_only = false;
};

// Whether a Host header names this machine by a loopback address or as localhost, with any port.
[[nodiscard]] bool names_loopback(std::string_view host);

// The answer that refuses the request; none: it may pass.
[[nodiscard]] std::optional<HttpResponse> refuse(const HttpRequest& request,
                                                 const HttpAccess& access);

}  // namespace muster
