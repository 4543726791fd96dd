// SPDX-License-Identifier: Apache-2.0
// OwnerSite: what the job's own user can query over the Unix socket: the job's site, and the URL of
// --http with its key. Owned by JobServer; one thread.
#pragma once

#include "http/site.hpp"
#include "status/job_socket.hpp"

#include <memory>
#include <string>
#include <utility>

namespace muster {

class OwnerSite final : public HttpSite {
 public:
  // `site` outlives it.
  explicit OwnerSite(HttpSite& site) : site_(site) {}

  void set_url(std::string url) { url_ = std::move(url); }

  [[nodiscard]] HttpResponse answer(const HttpRequest& request) override {
    if (request.path != kJobUrlPath) {
      return site_.answer(request);
    }
    HttpResponse out;
    out.body = std::make_shared<const std::string>(url_);
    return out;
  }

  [[nodiscard]] std::string events_from(std::uint64_t& cursor) override {
    return site_.events_from(cursor);
  }

  [[nodiscard]] bool events_over() const override { return site_.events_over(); }

 private:
  HttpSite& site_;
  std::string url_;
};

}  // namespace muster
