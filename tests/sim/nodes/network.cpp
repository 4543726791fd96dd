// SPDX-License-Identifier: Apache-2.0
// Machines, listeners, and the setup of connections. network_traffic.cpp has data in flight,
// network_faults.cpp the faults.
#include "sim/nodes/network.hpp"

#include <algorithm>
#include <utility>

namespace muster::sim {
namespace {

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
  queue_.after(link.timeout, std::move(over));
  // Within a machine, no packet is lost or delayed: the kernel accepts or refuses the connection.
  const bool is_remote = to != agents_[agent].machine;
  if (random_.chance(options_.dial_lost_percent) && is_remote) {
    return;
  }
  Duration delay = latency();
  if (random_.chance(options_.dial_slow_percent) && is_remote) {
    delay += Duration(random_.between(0, link.timeout.count() * 5 / 4));
  }
  queue_.after(delay, Happening{Kind::syn, 0, number, 0, nullptr, nullptr});
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
