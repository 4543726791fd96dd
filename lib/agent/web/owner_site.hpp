// SPDX-License-Identifier: Apache-2.0
// OwnerSite: answers the requests that the job's own user may send over the Unix socket: the job's
// pages, the --http URL with its key, and musterctl forget. Owned by JobServer; one thread.
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
  // Returns an empty string if the node was declared dead, or else the reason for the failure.
  using Forget = std::function<std::string(const std::string&)>;

  // `site` must outlive this object.
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
