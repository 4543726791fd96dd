// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/node/endpoint_binder.hpp"

#include "io/name_lookup.hpp"

#include <asio/io_context.hpp>
#include <asio/post.hpp>
#include <asio/steady_timer.hpp>
#include <fmt/core.h>

#include <algorithm>
#include <utility>

namespace muster {
namespace {

constexpr Duration kLookupTimeout = std::chrono::seconds(5);

// The interval between two background attempts.
constexpr Duration kTryAgain = std::chrono::seconds(1);

// Once one name has been resolved, the other lookups get this much more time.
constexpr Duration kNamesGrace = std::chrono::milliseconds(50);

struct Place {
  EndpointPlace place;
  EndpointBinding binding;
  std::unique_ptr<NameLookup> lookup;
  std::string trouble;
};

}  // namespace

// Shared with pending handlers, which do nothing once `open` is false.
struct EndpointBinder::Impl : std::enable_shared_from_this<EndpointBinder::Impl> {
  asio::io_context& loop;
  asio::steady_timer again;
  asio::steady_timer grace;
  std::vector<Place> places;
  Take take;
  std::vector<std::function<void()>> done;
  std::function<void()> enough;
  bool in_grace = false;
  std::string looked_for_at;
  std::size_t under_way = 0;
  bool open = true;
  bool trying = false;

  Impl(asio::io_context& on, const std::vector<Endpoint>& endpoints, Take given)
      : loop(on), again(on), grace(on), take(std::move(given)) {
    for (const Endpoint& endpoint : endpoints) {
      Place place;
      place.place.host = endpoint.host;
      place.place.port = endpoint.port.value_or(0);
      places.push_back(std::move(place));
    }
  }

  void try_all(std::function<void()> when_done) {
    done.push_back(std::move(when_done));
    ++under_way;
    for (Place& place : places) {
      if (place.binding.state != EndpointState::ours && !place.lookup) {
        look_up(place);
      }
    }
    asio::post(loop, [self = shared_from_this()] { self->one_less(); });
  }

  void look_up(Place& place) {
    ++under_way;
    place.lookup = std::make_unique<NameLookup>(
        loop,
        place.place.host,
        kLookupTimeout,
        [this, &place](Result<std::vector<std::string>> found) {
          // A lookup must not be destroyed from within its own callback.
          asio::post(loop, [gone = std::shared_ptr<NameLookup>(std::move(place.lookup))] {});
          if (found) {
            place.place.addresses = std::move(*found);
            place.trouble.clear();
            bind(place);
          } else {
            place.trouble = found.error().message;
          }
          note_settled();
          one_less();
        });
  }

  void bind(Place& place) {
    place.binding = bind_endpoint(place.place);
    for (UniqueFd& listener : std::exchange(place.binding.listeners, {})) {
      take(std::move(listener));
    }
  }

  [[nodiscard]] bool any_known() const {
    return std::ranges::any_of(places,
                               [](const Place& place) { return !place.place.addresses.empty(); });
  }

  void tell_enough() {
    if (open && enough) {
      std::exchange(enough, nullptr)();
    }
  }

  // An unresolvable name must not delay a node that can reach another endpoint.
  void note_settled() {
    if (!enough || !any_known()) {
      return;
    }
    if (places.front().lookup == nullptr) {
      tell_enough();
    } else if (!std::exchange(in_grace, true)) {
      grace.expires_after(kNamesGrace);
      grace.async_wait([self = shared_from_this()](const std::error_code& error) {
        if (!error) {
          self->tell_enough();
        }
      });
    }
  }

  void one_less() {
    if (--under_way == 0 && open) {
      for (const auto& told : std::exchange(done, {})) {
        told();
      }
    }
  }

  void keep_trying() {
    if (std::exchange(trying, true)) {
      return;
    }
    try_all([this] {
      const bool is_left = std::ranges::any_of(places, [](const Place& place) {
        return place.binding.state == EndpointState::taken || !place.trouble.empty();
      });
      if (!is_left) {
        trying = false;
        return;
      }
      again.expires_after(kTryAgain);
      again.async_wait([self = shared_from_this()](const std::error_code& error) {
        if (!error && self->open) {
          self->trying = false;
          self->keep_trying();
        }
      });
    });
  }
};

EndpointBinder::EndpointBinder(asio::io_context& loop,
                               const std::vector<Endpoint>& endpoints,
                               Take take)
    : impl_(std::make_shared<Impl>(loop, endpoints, std::move(take))) {}

EndpointBinder::~EndpointBinder() {
  impl_->open = false;
  impl_->again.cancel();
  impl_->grace.cancel();
  impl_->places.clear();
}

void EndpointBinder::try_all(std::function<void()> done) {
  impl_->try_all(std::move(done));
}

void EndpointBinder::try_enough(std::function<void()> done) {
  impl_->enough = std::move(done);
  impl_->in_grace = false;
  impl_->try_all([impl = impl_.get()] { impl->tell_enough(); });
}

void EndpointBinder::try_first(std::function<void()> done) {
  impl_->enough = std::move(done);
  impl_->in_grace = true;  // disables the grace period: only the first endpoint matters
  impl_->try_all([impl = impl_.get()] { impl->tell_enough(); });
}

void EndpointBinder::keep_trying() {
  impl_->keep_trying();
}

Result<void> EndpointBinder::host_first_everywhere() {
  auto bound = bind_everywhere(impl_->places.front().place.port);
  MUSTER_RETURN_IF_ERROR(bound);
  for (UniqueFd& listener : std::exchange(bound->listeners, {})) {
    impl_->take(std::move(listener));
  }
  Place& place = impl_->places.front();
  if (place.binding.state == EndpointState::elsewhere && !place.place.addresses.empty()) {
    impl_->looked_for_at = Endpoint{place.place.host, place.place.port}.describe();
  }
  place.binding = std::move(*bound);
  return {};
}

ShowRollCall EndpointBinder::with_place(ShowRollCall show) const {
  RollCall& call = show.call;
  if (impl_->looked_for_at.empty() || call.present >= call.needed) {
    return show;
  }
  if (call.awaited.empty()) {
    call.awaited.push_back(fmt::format("{} more", call.needed - call.present));
  }
  call.awaited.back() += fmt::format(
      " (other nodes look for the first node at {}, which is not an address of this host: does "
      "another host also have --node-rank=0?)",
      impl_->looked_for_at);
  return show;
}

const EndpointBinding& EndpointBinder::first() const {
  return impl_->places.front().binding;
}

bool EndpointBinder::may_have_first() const {
  const Place& place = impl_->places.front();
  return place.binding.state == EndpointState::taken || !place.trouble.empty() ||
         place.lookup != nullptr;
}

bool EndpointBinder::any_known() const {
  return impl_->any_known();
}

std::string EndpointBinder::trouble() const {
  const auto found = std::ranges::find_if(
      impl_->places, [](const Place& place) { return !place.trouble.empty(); });
  return found == impl_->places.end() ? std::string() : found->trouble;
}

}  // namespace muster
