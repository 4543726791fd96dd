// SPDX-License-Identifier: Apache-2.0
// OwnerSite: answers the requests that the job's own user may send over the Unix socket: the job's
// pages, the --http URL with its key, musterctl forget and musterctl debug. Owned by JobServer; one
// thread.
#pragma once

#include "http/site.hpp"
#include "status/debug_path.hpp"
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

  // Marks the rank as being debugged until the result is destroyed. Null if it does not run here.
  using Debug = std::function<std::shared_ptr<void>(int)>;

  // `site` must outlive this object.
  OwnerSite(HttpSite& site, Forget forget, Debug debug)
      : site_(site), forget_(std::move(forget)), debug_(std::move(debug)) {}

  void set_url(std::string url) { url_ = std::move(url); }

  [[nodiscard]] HttpResponse answer(const HttpRequest& request) override {
    if (request.path == kJobUrlPath) {
      return text(url_);
    }
    if (const auto rank = request.head ? std::nullopt : debugged_rank(request.path)) {
      HttpResponse out = text("");
      out.held = debug_(*rank);
      return out.held ? out : plain_response(kNotFound, "the rank does not run here");
    }
    const auto node = request.head ? std::nullopt : forgotten_node(request.path);
    return node ? text(forget_(*node)) : site_.answer(request);
  }

  [[nodiscard]] std::string events_from(std::uint64_t& cursor) override {
    return site_.events_from(cursor);
  }

  [[nodiscard]] bool events_over() const override { return site_.events_over(); }

 private:
  static constexpr int kNotFound = 404;

  static HttpResponse text(std::string body) {
    HttpResponse out;
    out.body = std::make_shared<const std::string>(std::move(body));
    return out;
  }

  HttpSite& site_;
  Forget forget_;
  Debug debug_;
  std::string url_;
};

}  // namespace muster
