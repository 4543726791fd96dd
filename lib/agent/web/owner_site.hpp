// SPDX-License-Identifier: Apache-2.0
// OwnerSite: what the job's own user can query over the Unix socket: the job's site, the URL of
// --http with its key, and musterctl forget. Owned by JobServer; one thread.
#pragma once

#include "http/site.hpp"
#include "status/forget_path.hpp"
#include "status/job_socket.hpp"

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

namespace muster {

class OwnerSite final : public HttpSite {
 public:
  // Empty if the node with this name is forgotten; else the reason why not.
  using Forget = std::function<std::string(const std::string&)>;

  // `site` outlives it.
  OwnerSite(HttpSite& site, Forget forget) : site_(site), forget_(std::move(forget)) {}

  void set_url(std::string url) { url_ = std::move(url); }

  [[nodiscard]] HttpResponse answer(const HttpRequest& request) override {
    if (request.path == kJobUrlPath) {
      return text(url_);
    }
    const auto node = request.head ? std::nullopt : forgotten_node(request.path);
    return node ? text(forget_(*node)) : site_.answer(request);
  }

  [[nodiscard]] std::string events_from(std::uint64_t& cursor) override {
    return site_.events_from(cursor);
  }

  [[nodiscard]] bool events_over() const override { return site_.events_over(); }

 private:
  static HttpResponse text(std::string body) {
    HttpResponse out;
    out.body = std::make_shared<const std::string>(std::move(body));
    return out;
  }

  HttpSite& site_;
  Forget forget_;
  std::string url_;
};

}  // namespace muster
