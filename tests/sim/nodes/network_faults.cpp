// SPDX-License-Identifier: Apache-2.0
// Network faults: processes and machines die or stop, routes are cut, connections are disturbed.
#include "sim/nodes/network.hpp"

#include <algorithm>
#include <utility>

namespace muster::sim {

bool Network::reachable(std::uint32_t from, std::uint32_t to) const {
  if (from == to) {
    return true;
  }
  return std::ranges::none_of(cuts_, [&](const Cut& cut) {
    return cut.inside[from] != cut.inside[to] && (!cut.one_way || cut.inside[from] != 0);
  });
}

void Network::process_gone(std::uint32_t agent, bool kernel_too) {
  agents_[agent].process = false;
  const bool reset = random_.chance(50);  // with unread input, the kernel drops unsent data
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

}  // namespace muster::sim
