// SPDX-License-Identifier: Apache-2.0
#include "agent/rounds/shared_start.hpp"

#include "agent/rounds/rendezvous_settings.hpp"
#include "base/clock.hpp"

#include <utility>

namespace muster {

void SharedStart::start(std::function<void(const Result<void>&)> done) {
  done_ = std::move(done);
  if (setup_.config.token.munge == MungeUse::none) {
    find_hosts(false);
  } else {
    try_munge();
  }
}

// Tests whether MUNGE works before this node announces to the other nodes that it supports MUNGE.
void SharedStart::try_munge() {
  munge_.emplace(loop_, setup_.environ.to_block());
  munge_->prove([this](const Result<void>& proven) {
    if (parts_.is_over()) {
      return;
    }
    if (proven) {
      find_hosts(true);
    } else if (setup_.config.token.munge == MungeUse::demanded) {
      done_(
          std::unexpected(Error{Errc::unreachable,
                                "--token=munge: " + proven.error().message +
                                    "; start munged, or pass the same --token-file on all nodes"}));
    } else {
      parts_.events.say(LogLevel::info, "continuing without " + proven.error().message);
      find_hosts(false);
    }
  });
}

void SharedStart::find_hosts(bool with_munge) {
  RendezvousSettings settings = rendezvous_settings(setup_);
  settings.credentials = with_munge ? &*munge_ : nullptr;
  settings.record = parts_.with_guard.record;
  if (!setup_.rejoins) {
    settings.core.reserve = parts_.node_history.reserve_here(wall_now_seconds());
  }
  if (const auto ready = use_token(setup_.config, settings); !ready) {
    done_(ready);
    return;
  }
  named_hosts_.emplace(loop_, setup_.config.named_hosts, settings.first_use);
  named_hosts_->when_found([this, settings] {
    if (!parts_.is_over()) {
      done_(join(settings));
    }
  });
}

Result<void> SharedStart::join(RendezvousSettings settings) {
  if (settings.trust || settings.credentials != nullptr) {
    parts_.admission.set_others(OtherUsers::admitted);  // the key controls admission
  } else if (setup_.config.token.is_off) {
    parts_.admission.set_others(OtherUsers::warned_of);
  }
  auto rendezvous = RendezvousNode::start(
      loop_, std::move(settings), std::move(parts_.with_guard.sockets), parts_.rounds);
  MUSTER_RETURN_IF_ERROR(rendezvous);
  (*rendezvous)->set_admission(&parts_.admission);
  parts_.rounds.start(std::move(*rendezvous), parts_.with_guard.lease);
  return {};
}

}  // namespace muster
