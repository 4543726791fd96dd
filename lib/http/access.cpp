// SPDX-License-Identifier: Apache-2.0
#include "http/access.hpp"

#include "base/endpoint.hpp"
#include "base/text.hpp"

#include <algorithm>

namespace muster {
namespace {

// 127.x.y.z and nothing that merely begins so ("127.0.0.1.example.org").
bool is_loopback_v4(std::string_view host) {
  const auto parts = split(host, '.');
  return parts.size() == 4 && parts[0] == "127" &&
         std::ranges::all_of(parts, [](const std::string& part) {
           return !part.empty() && part.size() <= 3 &&
                  part.find_first_not_of("0123456789") == std::string::npos;
         });
}

}  // namespace

bool names_loopback(std::string_view host) {
  const auto endpoint = parse_endpoint(host);
  if (!endpoint) {
    return false;
  }
  const std::string name = to_lower(endpoint->host);
  return name == "localhost" || name == "::1" || is_loopback_v4(name);
}

std::optional<HttpResponse> refuse(const HttpRequest& request, const HttpAccess& access) {
  if (!request.get) {
    return plain_response(405, "only GET and HEAD are answered");
  }
  if (access.loopback_only && !names_loopback(request.host)) {
    return plain_response(403, "this listens on a loopback address: ask for it as localhost");
  }
  return std::nullopt;
}

}  // namespace muster
