// SPDX-License-Identifier: Apache-2.0
// OwnerSite: answers the requests that the job's own user may send over the Unix socket: the job's
// pages, the --http URL with its key, and the commands of musterctl. Owned by JobServer; one
// thread.
#pragma once

#include "http/site.hpp"
#include "status/debug_path.hpp"
#include "status/forget_path.hpp"
#include "status/job_socket.hpp"
#include "status/profile_path.hpp"

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

namespace muster {

class OwnerSite final : public HttpSite {
 public:
  struct Commands {
    // Declares the node dead. Returns an empty string, or the reason for the failure.
    std::function<std::string(const std::string& node)> forget;
    // Marks the rank as being debugged until the result is destroyed. Null if it does not run here.
    std::function<std::shared_ptr<void>(int rank)> debug;
    // Begins a check of all nodes. Returns an empty string, or the reason for the failure.
    std::function<std::string()> check;
    // Makes PyTorch record a rank. Returns an empty string, or the reason for the failure.
    std::function<std::string(const ProfileRequest&)> profile;
  };

  // `site` must outlive this object.
  OwnerSite(HttpSite& site, Commands commands) : site_(site), commands_(std::move(commands)) {}

  void set_url(std::string url) { url_ = std::move(url); }

  [[nodiscard]] HttpResponse answer(const HttpRequest& request) override {
    if (request.path == kJobUrlPath) {
      return text(url_);
    }
    if (const auto rank = request.head ? std::nullopt : debugged_rank(request.path)) {
      HttpResponse out = text("");
      out.held = commands_.debug(*rank);
      return out.held ? out : plain_response(kNotFound, "the rank does not run here");
    }
    if (!request.head && request.path == kJobCheckPath) {
      return text(commands_.check());
    }
    if (const auto wanted = request.head ? std::nullopt : profile_request(request.path)) {
      return text(commands_.profile(*wanted));
    }
    const auto node = request.head ? std::nullopt : forgotten_node(request.path);
    return node ? text(commands_.forget(*node)) : site_.answer(request);
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
  Commands commands_;
  std::string url_;
};

}  // namespace muster
