// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/round/follower/endpoint_dialler.hpp"

#include <algorithm>
#include <utility>

namespace muster {

EndpointDialler::EndpointDialler(const std::vector<Endpoint>& endpoints) {
  for (const Endpoint& endpoint : endpoints) {
    attempts_.push_back(Attempt{.endpoint = endpoint, .trouble = {}});
  }
}

void EndpointDialler::begin(TimePoint now) {
  for (std::size_t i = 0; i < attempts_.size(); ++i) {
    Attempt& attempt = attempts_[i];
    // An endpoint that has failed keeps its retry delay, even if a new search begins.
    if (attempt.due == TimePoint::min()) {
      attempt.due = now + kDialStagger * static_cast<Duration::rep>(i);
    }
  }
}

void EndpointDialler::tick(TimePoint now, LinkId& next_link, NodeEffects& out) {
  for (Attempt& attempt : attempts_) {
    if (attempt.link == 0 && attempt.due <= now) {
      attempt.link = next_link;
      // Ids are allocated in steps of 4. The ids in between belong to other users of links.
      next_link += 4;
      out.emplace_back(OpenLink{
          attempt.link, attempt.endpoint.host, attempt.endpoint.port.value_or(0), kConnectTimeout});
    }
  }
}

std::optional<TimePoint> EndpointDialler::next_deadline() const {
  std::optional<TimePoint> next;
  for (const Attempt& attempt : attempts_) {
    if (attempt.link == 0) {
      next = next ? std::min(*next, attempt.due) : attempt.due;
    }
  }
  return next;
}

std::optional<std::size_t> EndpointDialler::index_of(LinkId link) const {
  // 0 marks an attempt without a connection. It is also the id of the link to this node itself.
  const auto found = std::ranges::find(attempts_, link, &Attempt::link);
  return link == 0 || found == attempts_.end()
             ? std::nullopt
             : std::optional(static_cast<std::size_t>(found - attempts_.begin()));
}

// Also cancels the stagger: endpoints that have not been tried yet become due immediately.
void EndpointDialler::fail(TimePoint now,
                           std::size_t index,
                           const std::string& why,
                           TimePoint again) {
  Attempt& failed = attempts_[index];
  failed.link = 0;
  failed.due = again;
  failed.pause = std::min(failed.pause * 2, kSeekPauseMost);
  failed.trouble = why;
  for (Attempt& attempt : attempts_) {
    // Endpoints that have failed keep their retry delays.
    if (attempt.link == 0 && attempt.trouble.empty()) {
      attempt.due = std::min(attempt.due, now);
    }
  }
}

void EndpointDialler::drop(NodeEffects& out) {
  for (Attempt& attempt : attempts_) {
    if (attempt.link != 0) {
      // This attempt has not failed, so the endpoint is due immediately in the next search.
      out.emplace_back(CloseLink{std::exchange(attempt.link, 0)});
      attempt.due = TimePoint::min();
    }
  }
}

void EndpointDialler::forget_failures() {
  for (Attempt& attempt : attempts_) {
    attempt.due = TimePoint::min();
    attempt.pause = kSeekPauseFirst;
    attempt.trouble.clear();
  }
}

std::string EndpointDialler::trouble() const {
  std::string text;
  for (const Attempt& attempt : attempts_) {
    if (!attempt.trouble.empty()) {
      text += (text.empty() ? "" : "; ") + attempt.endpoint.describe() + ": " + attempt.trouble;
    }
  }
  return text;
}

}  // namespace muster
