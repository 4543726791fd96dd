// SPDX-License-Identifier: Apache-2.0
#include "sim/nodes/network.hpp"

#include <algorithm>

namespace muster::sim {
namespace {

using std::chrono::microseconds;
using std::chrono::seconds;

const char* words_of(LinkEnd how) {
  switch (how) {
    case LinkEnd::refused:
      return "connection refused";
    case LinkEnd::closed:
      return "connection closed";
    case LinkEnd::unreachable:
      return "no answer";
    case LinkEnd::no_name:
      return "no such host";
    case LinkEnd::broken:
      return "broken bytes";
  }
  return "";
}

constexpr std::uint8_t kIsEnd = 0x10;  // in Happening::side of an arrival: no data, but the end

}  // namespace

Network::Network(EventQueue& queue,
                 Random& random,
                 NetworkUser& user,
                 const NetworkOptions& options)
    : queue_(queue), random_(random), user_(user), options_(options) {}

std::uint32_t Network::add_machine(std::string name, std::string address) {
  machine_of_.emplace(name, machines_.size());
  machine_of_.emplace(address, machines_.size());
  machines_.push_back(Machine{std::move(name), std::move(address), true, false, {}});
  return static_cast<std::uint32_t>(machines_.size() - 1);
}

void Network::add_agent(std::uint32_t agent, std::uint32_t machine) {
  agents_.resize(std::max<std::size_t>(agents_.size(), agent + 1));
  agents_[agent].machine = machine;
}

void Network::listen(std::uint32_t machine, std::uint16_t port, std::uint32_t agent) {
  machines_[machine].listeners.emplace_back(port, agent);
}

std::uint32_t Network::listener(std::uint32_t machine, std::uint16_t port) const {
  for (const auto& [known, agent] : machines_[machine].listeners) {
    if (known == port) {
      return agent;
    }
  }
  return kNobody;
}

bool Network::port_free(std::uint32_t machine, std::uint16_t port) const {
  return listener(machine, port) == kNobody;
}

void Network::stop_listening(std::uint32_t agent, std::uint16_t kept) {
  auto& listeners = machines_[agents_[agent].machine].listeners;
  std::erase_if(listeners, [&](const auto& entry) {
    return entry.second == agent && (kept == 0 || entry.first != kept);
  });
  if (kept != 0) {
    return;
  }
  for (const std::uint64_t place : agents_[agent].links) {
    if (place == 0) {
      continue;
    }
    const auto connection = static_cast<std::uint32_t>((place - 1) / 2);
    const int side = static_cast<int>((place - 1) % 2);
    if (connections_[connection].ends[static_cast<std::size_t>(side)].open) {
      connections_[connection].ends[static_cast<std::size_t>(side)].open = false;
      put_end(connection, 1 - side, LinkEnd::closed, false);
    }
  }
}

Duration Network::latency() {
  return Duration(random_.between(options_.latency_min.count(), options_.latency_max.count()));
}

std::uint32_t Network::find_machine(const std::string& host) const {
  const auto at = machine_of_.find(host);
  return at == machine_of_.end() ? kNobody : at->second;
}

void Network::bind_link(std::uint32_t agent, LinkId link, std::uint64_t place) {
  auto& links = agents_[agent].links;
  if (links.size() <= link) {
    links.resize(std::max<std::size_t>(links.size() * 2, link + 1));
  }
  links[link] = place;
}

Network::End* Network::end_of(std::uint32_t agent, LinkId link, std::uint64_t& place) {
  const auto& links = agents_[agent].links;
  if (link >= links.size() || links[link] == 0) {
    return nullptr;
  }
  place = links[link] - 1;
  return &connections_[place / 2].ends[place % 2];
}

bool Network::dropped(std::uint32_t agent, LinkId link) const {
  const auto& links = agents_[agent].links;
  if (link >= links.size() || links[link] == 0) {
    return false;
  }
  const std::uint64_t place = links[link] - 1;
  return connections_[place / 2].ends[place % 2].dropped;
}

void Network::open(std::uint32_t agent, const OpenLink& link) {
  const auto number = static_cast<std::uint32_t>(connections_.size());
  const std::uint32_t to = find_machine(link.host);
  Connection& connection = connections_.emplace_back();
  connection.ends[0].agent = agent;
  connection.ends[0].link = link.link;
  connection.ends[0].open = true;
  connection.machines = {agents_[agent].machine, to};
  connection.port = link.port;
  bind_link(agent, link.link, std::uint64_t{number} * 2 + 1);
  Happening over{Kind::dial_over, 0, number, 0, nullptr, nullptr};
  if (to == kNobody) {
    over.detail = 1;
    queue_.after(latency(), std::move(over));
    return;
  }
  queue_.after(link.patience, std::move(over));
  if (random_.chance(options_.dial_lost_percent)) {
    return;
  }
  Duration delay = latency();
  if (random_.chance(options_.dial_slow_percent)) {
    delay += Duration(random_.between(0, link.patience.count() * 5 / 4));
  }
  queue_.after(delay, Happening{Kind::syn, 0, number, 0, nullptr, nullptr});
}

bool Network::reachable(std::uint32_t from, std::uint32_t to) const {
  if (from == to) {
    return true;
  }
  return std::ranges::none_of(cuts_, [&](const Cut& cut) {
    return cut.inside[from] != cut.inside[to] && (!cut.one_way || cut.inside[from] != 0);
  });
}

void Network::on_syn(std::uint32_t number) {
  Connection& connection = connections_[number];
  if (!connection.ends[0].open || !connection.dialling) {
    return;
  }
  const auto [from, to] = connection.machines;
  const Machine& there = machines_[to];
  if (!there.power || there.frozen || !reachable(from, to) || !reachable(to, from)) {
    queue_.after(connection.syn_gap, Happening{Kind::syn, 0, number, 0, nullptr, nullptr});
    connection.syn_gap *= 2;
    return;
  }
  const std::uint32_t agent = listener(to, connection.port);
  if (agent == kNobody) {
    queue_.after(latency(), Happening{Kind::refused, 0, number, 0, nullptr, nullptr});
    return;
  }
  connection.dialling = false;
  queue_.after(latency(), Happening{Kind::opened, 0, number, 0, nullptr, nullptr});
  connection.ends[0].arrival = queue_.now() + options_.latency_max;
  accept(number, agent);
}

void Network::accept(std::uint32_t number, std::uint32_t agent) {
  Connection& connection = connections_[number];
  End& end = connection.ends[1];
  end.agent = agent;
  end.link = agents_[agent].next_incoming;
  end.open = true;
  agents_[agent].next_incoming += 2;
  bind_link(agent, end.link, std::uint64_t{number} * 2 + 2);
  if (agents_[agent].process) {
    user_.on_network(agent, LinkAccepted{end.link, machines_[connection.machines[0]].address});
  }
}

void Network::on_opened(std::uint32_t number) {
  End& end = connections_[number].ends[0];
  if (end.open) {
    if (options_.bytes) {
      put_bytes(number, 1, ByteSide::begin());
    }
    user_.on_network(end.agent, LinkOpened{end.link});
  }
}

void Network::end_link(std::uint32_t number, int side, LinkEnd how) {
  End& end = connections_[number].ends[static_cast<std::size_t>(side)];
  if (!end.open) {
    return;
  }
  end.open = false;
  if (agents_[end.agent].process) {
    user_.on_network(end.agent, LinkClosed{end.link, how, words_of(how)});
  }
}

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
    return;  // what is sent on a connection that has ended is lost
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

// To that side.
void Network::put_bytes(std::uint32_t number, int side, std::string all) {
  bytes_sent_ += all.size();
  while (!all.empty()) {  // TCP cuts where it likes
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

void Network::process_gone(std::uint32_t agent, bool kernel_too) {
  agents_[agent].process = false;
  const bool reset = random_.chance(50);  // unread input makes the kernel drop what was not sent
  for (const std::uint64_t place : agents_[agent].links) {
    if (place == 0) {
      continue;
    }
    Connection& connection = connections_[(place - 1) / 2];
    const int side = static_cast<int>((place - 1) % 2);
    End& end = connection.ends[static_cast<std::size_t>(side)];
    const bool tell = end.open && !kernel_too && !(side == 0 && connection.dialling);
    end.open = false;
    if (tell) {
      put_end(static_cast<std::uint32_t>((place - 1) / 2), 1 - side, LinkEnd::closed, !reset);
    }
  }
  if (kernel_too) {
    stop_listening(agent);
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
  if (!end.open) {  // the kernel there knows nothing of it: reset
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
  const std::uint32_t agent = end.agent;  // `end` may move while others connect
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
  // Who lost its memory with its power sends nothing again.
  const bool forgotten = !connection.ends[static_cast<std::size_t>(1 - side)].open &&
                         (end.held.back().side & kIsEnd) == 0;
  std::vector<Happening> held = std::move(end.held);
  end.held.clear();
  std::erase(waiting_, std::pair(number, side));
  for (Happening& what : held) {
    if (forgotten) {
      break;
    }
    end.arrival = std::max(end.arrival, queue_.now());
    queue_.at(end.arrival, std::move(what));
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

void Network::set_power(std::uint32_t machine, bool on) {
  machines_[machine].power = on;
  if (on) {
    machines_[machine].frozen = false;
    send_again();
  }
}

void Network::set_frozen(std::uint32_t machine, bool frozen) {
  machines_[machine].frozen = frozen;
  if (!frozen) {
    send_again();
  }
}

std::uint64_t Network::cut(std::vector<std::uint8_t> inside, bool one_way) {
  cuts_.push_back(Cut{next_cut_, std::move(inside), one_way});
  return next_cut_++;
}

void Network::heal(std::uint64_t cut) {
  std::erase_if(cuts_, [&](const Cut& known) { return known.number == cut; });
  send_again();
}

void Network::hurt(std::uint32_t agent, int how, Duration length) {
  std::vector<std::uint64_t> open;
  for (const std::uint64_t place : agents_[agent].links) {
    if (place != 0 && connections_[(place - 1) / 2].ends[(place - 1) % 2].open) {
      open.push_back(place - 1);
    }
  }
  if (open.empty()) {
    return;
  }
  const std::uint64_t place = open[static_cast<std::size_t>(
      random_.between(0, static_cast<std::int64_t>(open.size()) - 1))];
  const auto number = static_cast<std::uint32_t>(place / 2);
  Connection& connection = connections_[number];
  if (connection.dialling) {
    return;
  }
  if (how == 0) {
    end_link(number, 0, LinkEnd::closed);
    end_link(number, 1, LinkEnd::closed);
  } else if (how == 1) {
    End& end = connection.ends[place % 2];
    end.arrival = std::max(end.arrival, queue_.now() + length);
  } else {
    connection.black_hole = true;
  }
  hurt_until_ = std::max(hurt_until_, queue_.now() + length);
}

void Network::reset_soon(std::uint32_t agent, LinkId link) {
  std::uint64_t place = 0;
  const End* end = end_of(agent, link, place);
  if (end != nullptr && end->open) {
    put_end(static_cast<std::uint32_t>(place / 2), 0, LinkEnd::closed, false);
    put_end(static_cast<std::uint32_t>(place / 2), 1, LinkEnd::closed, false);
  }
}

void Network::calm() {
  options_.dial_lost_percent = 0;
  options_.dial_slow_percent = 0;
  hurt_until_ = VirtualTime{};
  cuts_.clear();
  for (std::uint32_t i = 0; i < connections_.size(); ++i) {
    if (connections_[i].black_hole) {
      connections_[i].black_hole = false;
      end_link(i, 0, LinkEnd::closed);
      end_link(i, 1, LinkEnd::closed);
    }
  }
  send_again();
}

void Network::handle(Happening& what) {
  const std::uint32_t number = what.subject;
  switch (what.kind) {
    case Kind::syn:
      on_syn(number);
      break;
    case Kind::opened:
      on_opened(number);
      break;
    case Kind::refused:
    case Kind::dial_over:
      if (connections_[number].dialling) {
        connections_[number].dialling = false;
        end_link(number,
                 0,
                 what.kind == Kind::refused ? LinkEnd::refused
                 : what.detail != 0         ? LinkEnd::no_name
                                            : LinkEnd::unreachable);
      }
      break;
    case Kind::arrival:
      on_arrival(what);
      break;
    case Kind::flush:
      on_flush(number, what.side);
      break;
    case Kind::overdue:
      on_overdue(number, what.side);
      break;
    default:
      break;
  }
}

}  // namespace muster::sim
