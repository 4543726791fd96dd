// SPDX-License-Identifier: Apache-2.0
// Data in flight on connections: in order, held while nothing gets through, then resent.
#include "sim/nodes/network.hpp"

#include <algorithm>
#include <utility>

namespace muster::sim {
namespace {

constexpr std::uint8_t kIsEnd = 0x10;  // in Happening::side of an arrival: no data, but the end of
                                       // the connection

}  // namespace

void Network::put(std::uint32_t number, int side, Happening what, bool in_order) {
  End& end = connections_[number].ends[static_cast<std::size_t>(side)];
  what.kind = Kind::arrival;
  what.subject = number;
  what.side = static_cast<std::uint8_t>(what.side | side);
  VirtualTime when = queue_.now() + latency();
  if (in_order) {
    when = std::max(when, end.arrival);
    end.arrival = when;
  }
  queue_.at(when, std::move(what));
}

void Network::put_end(std::uint32_t number, int side, LinkEnd how, bool in_order) {
  Happening what;
  what.side = kIsEnd;
  what.detail = static_cast<std::uint64_t>(how);
  put(number, side, std::move(what), in_order);
}

ByteSide& Network::bytes_of(End& end, int side) {
  if (!end.bytes) {
    end.bytes = std::make_unique<ByteSide>(side == 0 ? RoundDecoder::Side::dialled
                                                     : RoundDecoder::Side::accepted);
  }
  return *end.bytes;
}

void Network::send(std::uint32_t agent, LinkId link, std::shared_ptr<const RoundMessage> message) {
  std::uint64_t place = 0;
  End* end = end_of(agent, link, place);
  if (end == nullptr || !end->open) {
    return;  // data sent on a closed connection is lost
  }
  ++sent_;
  ++agents_[agent].sent;
  const auto number = static_cast<std::uint32_t>(place / 2);
  const int side = 1 - static_cast<int>(place % 2);
  if (!options_.bytes) {
    put(number, side, Happening{Kind::arrival, 0, 0, 0, std::move(message), nullptr}, true);
    return;
  }
  put_bytes(number, side, bytes_of(*end, static_cast<int>(place % 2)).encode(*message));
}

// Sends the bytes to that side.
void Network::put_bytes(std::uint32_t number, int side, std::string all) {
  bytes_sent_ += all.size();
  while (!all.empty()) {  // TCP may split data anywhere
    const auto size = static_cast<std::size_t>(
        random_.chance(50) ? static_cast<std::int64_t>(all.size())
                           : random_.between(1, static_cast<std::int64_t>(all.size())));
    auto piece = std::make_shared<const std::string>(all.substr(0, size));
    all.erase(0, size);
    put(number, side, Happening{Kind::arrival, 0, 0, 0, nullptr, std::move(piece)}, true);
  }
}

void Network::close(std::uint32_t agent, LinkId link) {
  std::uint64_t place = 0;
  End* end = end_of(agent, link, place);
  if (end == nullptr) {
    return;
  }
  end->dropped = true;
  if (!end->open) {
    return;
  }
  end->open = false;
  const auto number = static_cast<std::uint32_t>(place / 2);
  if (!connections_[number].dialling) {
    put_end(number, 1 - static_cast<int>(place % 2), LinkEnd::closed, true);
  }
}

void Network::hold(std::uint32_t number, int side, Happening& what) {
  Connection& connection = connections_[number];
  End& end = connection.ends[static_cast<std::size_t>(side)];
  if (end.held.empty()) {
    end.held_since = queue_.now();
    waiting_.emplace_back(number, side);
    if (options_.tcp_timeout > Duration::zero()) {
      queue_.after(
          options_.tcp_timeout,
          Happening{Kind::overdue, static_cast<std::uint8_t>(side), number, 0, nullptr, nullptr});
    }
  }
  end.held.push_back(std::move(what));
}

void Network::on_arrival(Happening& what) {
  const std::uint32_t number = what.subject;
  const int side = what.side & 1;
  Connection& connection = connections_[number];
  End& end = connection.ends[static_cast<std::size_t>(side)];
  const std::uint32_t to = connection.machines[static_cast<std::size_t>(side)];
  const std::uint32_t from = connection.machines[static_cast<std::size_t>(1 - side)];
  const Machine& there = machines_[to];
  if (connection.black_hole || !there.power || there.frozen || !end.held.empty() ||
      !reachable(from, to)) {
    hold(number, side, what);
    return;
  }
  if ((what.side & kIsEnd) != 0) {
    end_link(number, side, static_cast<LinkEnd>(what.detail));
    return;
  }
  if (!end.open) {  // the kernel there does not know the connection: reset
    if (connection.ends[static_cast<std::size_t>(1 - side)].open) {
      put_end(number, 1 - side, LinkEnd::closed, false);
    }
    return;
  }
  if (!agents_[end.agent].process) {
    return;
  }
  if (what.bytes == nullptr) {
    user_.on_network(end.agent, MessageReceived{end.link, std::move(what.message)});
    return;
  }
  std::vector<std::shared_ptr<const RoundMessage>> messages;
  const bool good = bytes_of(end, side).feed(*what.bytes, messages);
  put_bytes(number, 1 - side, bytes_of(end, side).take_reply());
  const std::uint32_t agent = end.agent;  // `end` may move while other nodes connect
  const LinkId link = end.link;
  for (auto& message : messages) {
    user_.on_network(agent, MessageReceived{link, std::move(message)});
  }
  if (!good) {
    end_link(number, side, LinkEnd::broken);
    put_end(number, 1 - side, LinkEnd::closed, true);
  }
}

void Network::send_again() {
  for (const auto& [number, side] : waiting_) {
    const Duration delay = Duration(random_.between(0, options_.resend_max.count()));
    queue_.after(
        delay,
        Happening{Kind::flush, static_cast<std::uint8_t>(side), number, 0, nullptr, nullptr});
  }
}

void Network::on_flush(std::uint32_t number, int side) {
  Connection& connection = connections_[number];
  End& end = connection.ends[static_cast<std::size_t>(side)];
  const std::uint32_t to = connection.machines[static_cast<std::size_t>(side)];
  const std::uint32_t from = connection.machines[static_cast<std::size_t>(1 - side)];
  const Machine& there = machines_[to];
  const Machine& here = machines_[from];
  if (end.held.empty() || connection.black_hole || !there.power || there.frozen || !here.power ||
      here.frozen || !reachable(from, to)) {
    return;
  }
  // A machine that lost its memory with its power does not resend.
  const bool forgotten = !connection.ends[static_cast<std::size_t>(1 - side)].open &&
                         (end.held.back().side & kIsEnd) == 0;
  std::vector<Happening> held = std::move(end.held);
  end.held.clear();
  std::erase(waiting_, std::pair(number, side));
  // At once, because messages sent after these may be in the queue already.
  for (Happening& what : held) {
    if (forgotten) {
      break;
    }
    on_arrival(what);
  }
}

void Network::on_overdue(std::uint32_t number, int side) {
  End& end = connections_[number].ends[static_cast<std::size_t>(side)];
  if (!end.held.empty() && queue_.now() - end.held_since >= options_.tcp_timeout) {
    end.held.clear();
    std::erase(waiting_, std::pair(number, side));
    end_link(number, 1 - side, LinkEnd::unreachable);
  }
}

}  // namespace muster::sim
