// SPDX-License-Identifier: Apache-2.0
#include "http/access.hpp"

#include "base/endpoint.hpp"
#include "base/text.hpp"

#include <algorithm>

namespace muster {
namespace {

// Matches only addresses such as 127.x.y.z, not names with that prefix ("127.0.0.1.example.org").
bool is_loopback_v4(std::string_view host) {
  const auto parts = split(host, '.');
  return parts.size() == 4 && parts[0] == "127" &&
         std::ranges::all_of(parts, [](const std::string& part) {
           return !part.empty() && part.size() <= 3 &&
                  part.find_first_not_of("0123456789") == std::string::npos;
         });
}

constexpr std::string_view kKeyField = "key=";
constexpr std::string_view kBearer = "bearer ";
constexpr int kHttpPort = 80;

// Browsers send a host's cookies to all of its ports. With the port in the cookie's name, the keys
// of several jobs do not collide, even with forwarded ports.
std::string cookie_name(const HttpRequest& request) {
  const auto host = parse_endpoint(request.host);
  return "muster-key-" + std::to_string(host ? host->port.value_or(kHttpPort) : kHttpPort);
}

bool cookie_has_key(const HttpRequest& request, std::string_view key) {
  const std::string begin = cookie_name(request) + "=";
  return std::ranges::any_of(split(request.cookie, ';'), [&](const std::string& part) {
    const std::string_view cookie = trim(part);
    return cookie.starts_with(begin) && same_secret(cookie.substr(begin.size()), key);
  });
}

bool bearer_has_key(const HttpRequest& request, std::string_view key) {
  const std::string_view text = request.authorization;
  return text.size() > kBearer.size() && to_lower(text.substr(0, kBearer.size())) == kBearer &&
         same_secret(trim(text.substr(kBearer.size())), key);
}

bool query_has_key(const HttpRequest& request, std::string_view key) {
  return std::ranges::any_of(split(request.query, '&'), [&](const std::string& field) {
    return field.starts_with(kKeyField) &&
           same_secret(std::string_view(field).substr(kKeyField.size()), key);
  });
}

// The path and query to redirect to, without the key. A path such as "//host" or "http://host"
// would redirect a browser to another host, so "/" replaces it.
std::string clean_target(const HttpRequest& request) {
  std::string out =
      request.path.starts_with('/') && !request.path.starts_with("//") ? request.path : "/";
  char sign = '?';
  for (const std::string& field : split(request.query, '&')) {
    if (!field.empty() && !field.starts_with(kKeyField)) {
      out += sign + field;
      sign = '&';
    }
  }
  return out;
}

HttpResponse redirect_with_cookie(const HttpRequest& request, const std::string& key) {
  HttpResponse out = plain_response(303, "the key is stored as a cookie");
  out.location = clean_target(request);
  out.set_cookie = cookie_name(request) + "=" + key + "; Path=/; HttpOnly; SameSite=Strict";
  return out;
}

std::optional<HttpResponse> check_key(const HttpRequest& request, const HttpAccess& access) {
  if (access.key.empty() ||
      std::ranges::find(access.open_paths, request.path) != access.open_paths.end()) {
    return std::nullopt;
  }
  if (query_has_key(request, access.key)) {
    return redirect_with_cookie(request, access.key);
  }
  if (cookie_has_key(request, access.key) || bearer_has_key(request, access.key)) {
    return std::nullopt;
  }
  return plain_response(
      401,
      "this page needs a key. Open the URL that muster printed when the job "
      "started (musterctl url prints it again), or send Authorization: Bearer KEY");
}

}  // namespace

bool same_secret(std::string_view given, std::string_view secret) {
  unsigned differs = given.size() == secret.size() ? 0U : 1U;
  for (std::size_t i = 0; i < given.size() && !secret.empty(); ++i) {
    differs |= static_cast<unsigned>(static_cast<unsigned char>(given[i])) ^
               static_cast<unsigned>(static_cast<unsigned char>(secret[i % secret.size()]));
  }
  return differs == 0 && !secret.empty();
}

bool is_url_safe(std::string_view key) {
  return key.find_first_not_of(
             "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~") ==
         std::string_view::npos;
}

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
    return plain_response(405, "only GET and HEAD are supported");
  }
  if (access.loopback_only && !names_loopback(request.host)) {
    return plain_response(403,
                          "this server listens on a loopback address. Use localhost in the URL");
  }
  return check_key(request, access);
}

}  // namespace muster
