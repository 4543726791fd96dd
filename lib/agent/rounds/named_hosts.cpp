// SPDX-License-Identifier: Apache-2.0
#include "agent/rounds/named_hosts.hpp"

#include <asio/io_context.hpp>
#include <asio/post.hpp>
#include <fmt/core.h>

#include <utility>

namespace muster {
namespace {

constexpr std::size_t kLookupsAtOnce = 32;  // each lookup needs descriptors

// A longer wait for a name server that does not respond would delay the start of the job.
constexpr Duration kNamesTimeout = std::chrono::seconds(3);

}  // namespace

NamedHosts::NamedHosts(asio::io_context& loop, Names names, std::shared_ptr<FirstUse> first_use)
    : loop_(loop), names_(std::move(names)), first_use_(std::move(first_use)) {}

void NamedHosts::when_found(std::function<void()> done) {
  if (!first_use_ || first_use_->is_open() || !names_ || names_->value.empty()) {
    done();
    return;
  }
  done_ = std::move(done);
  begin_some();
}

void NamedHosts::begin_some() {
  while (lookups_.size() < names_->value.size() && lookups_.size() - answered_ < kLookupsAtOnce) {
    const std::string& name = names_->value[lookups_.size()];
    lookups_.push_back(std::make_unique<NameLookup>(
        loop_, name, kNamesTimeout, [this](const auto& addresses) { take(addresses); }));
  }
}

void NamedHosts::take(const Result<std::vector<std::string>>& addresses) {
  if (!done_) {  // already finished: another name had no address
    return;
  }
  ++answered_;
  if (!addresses) {
    first_use_->note_unknown(fmt::format(
        "cannot resolve the hosts in {}: {}", names_->origin, addresses.error().message));
    finish();
    return;
  }
  addresses_.insert(addresses->begin(), addresses->end());
  begin_some();
  if (answered_ == names_->value.size()) {
    first_use_->limit_to(std::move(addresses_), names_->origin);
    finish();
  }
}

// A lookup must not be destroyed by its own callback.
void NamedHosts::finish() {
  asio::post(loop_, [old = std::make_shared<decltype(lookups_)>(std::move(lookups_))] {});
  lookups_.clear();
  std::exchange(done_, nullptr)();
}

}  // namespace muster
