// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/round/questions/client_vouching.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <iterator>
#include <memory>
#include <utility>

namespace muster {
namespace {

constexpr std::string_view kTranslated =
    "if addresses are translated between the nodes, use --store-via=proxy";

// The zone of a link-local address has a different name on each host.
std::string_view without_zone(std::string_view address) {
  return address.substr(0, address.find('%'));
}

// Used if several nodes share an address. A refusal from the node that has the connection is more
// informative than a refusal from a node that does not have it.
bool says_more(VouchAnswer left, VouchAnswer right) {
  const auto weight = [](VouchAnswer answer) {
    return answer == VouchAnswer::other_user || answer == VouchAnswer::other_process;
  };
  return weight(left) && !weight(right);
}

}  // namespace

std::string describe_refusal(const Vouched& said, const std::string& client) {
  switch (said.answer) {
    case VouchAnswer::other_user:
      return fmt::format("it belongs to another user on node '{}'", said.node);
    case VouchAnswer::other_process:
      return fmt::format("it belongs to a process on node '{}' that is not part of this job",
                         said.node);
    case VouchAnswer::no_socket:
      return fmt::format("node '{}' has no such connection; {}", said.node, kTranslated);
    case VouchAnswer::unknown_address:
      return fmt::format("no node of this job has the address {}; {}", client, kTranslated);
    case VouchAnswer::out_of_touch:
      return fmt::format("the node with the address {} is out of contact", client);
    case VouchAnswer::ours:
    case VouchAnswer::cannot_tell:
      break;
  }
  return {};
}

// -- the asking node --------------------------------------------------------------------------

void ClientVouching::want(TimePoint now,
                          const VouchWanted& wanted,
                          std::optional<LinkId> to,
                          NodeEffects& out) {
  if (waiting_.size() >= kVouchesMax) {
    end(wanted.client,
        Error{Errc::not_possible, "too many clients are waiting for verification"},
        out);
    return;
  }
  if (waiting_.empty()) {
    // One timer repeats all queries. The timer starts with the first query.
    again_ = now + vouch_again_after(lease_);
  }
  Waiting& waiting = waiting_[wanted.client];
  waiting.client = wanted.connection;
  waiting.give_up = now + vouch_within(lease_);
  if (to) {
    ask(waiting, wanted.client, *to, out);
  }
}

void ClientVouching::ask(Waiting& waiting, std::uint64_t client, LinkId to, NodeEffects& out) {
  // A repeated query counts refusals from 0, so late answers to the previous one must not count.
  by_sequence_.erase(waiting.sequence);
  waiting.sequence = ++sequence_;
  waiting.noes = 0;
  by_sequence_.emplace(waiting.sequence, client);
  out.emplace_back(SendMessage{
      to,
      std::make_shared<const RoundMessage>(Vouch{
          .asker = self_, .sequence = waiting.sequence, .asked = 0, .client = waiting.client})});
}

// One positive answer is enough. A negative result is final once all nodes with the address have
// answered no. A node that is out of contact has not answered and is queried again.
void ClientVouching::take(const Vouched& said, NodeEffects& out) {
  const auto found = by_sequence_.find(said.sequence);
  if (said.asker != self_ || found == by_sequence_.end()) {
    return;
  }
  const std::uint64_t client = found->second;
  Waiting& waiting = waiting_.at(client);
  if (said.answer == VouchAnswer::cannot_tell && !std::exchange(warned_, true)) {
    out.emplace_back(SayNode{fmt::format(
        "the kernel of node '{}' does not report the owners of connections: every process there "
        "can use the workers' store",
        said.node)});
  }
  // If the kernel cannot report owners, a refusal would lock out all workers on that node.
  if (said.answer == VouchAnswer::ours || said.answer == VouchAnswer::cannot_tell) {
    end(client, std::nullopt, out);
    return;
  }
  // Keep the most informative answer for the message.
  if (waiting.noes == 0 || says_more(said.answer, waiting.last.answer)) {
    waiting.last = said;
  }
  if (said.answer == VouchAnswer::out_of_touch) {
    return;
  }
  ++waiting.noes;
  if (waiting.noes >= said.asked) {
    end(client,
        Error{Errc::not_possible, describe_refusal(waiting.last, waiting.client.host)},
        out);
  }
}

void ClientVouching::end(std::uint64_t client, std::optional<Error> refused, NodeEffects& out) {
  if (const auto found = waiting_.find(client); found != waiting_.end()) {
    by_sequence_.erase(found->second.sequence);
    waiting_.erase(found);
  }
  out.emplace_back(VouchKnown{client, std::move(refused)});
}

void ClientVouching::ask_all(TimePoint now, std::optional<LinkId> to, NodeEffects& out) {
  again_ = now + vouch_again_after(lease_);
  if (to) {
    for (auto& [client, waiting] : waiting_) {
      ask(waiting, client, *to, out);
    }
  }
}

// All clients have the same timeout, so the oldest client's timeout expires first.
void ClientVouching::tick(TimePoint now, std::optional<LinkId> to, NodeEffects& out) {
  while (!waiting_.empty() && waiting_.begin()->second.give_up <= now) {
    const Waiting& oldest = waiting_.begin()->second;
    end(waiting_.begin()->first,
        Error{Errc::timed_out,
              fmt::format(
                  "the node with the address {} did not report the connection's owner in time",
                  oldest.client.host)},
        out);
  }
  if (!waiting_.empty() && again_ <= now) {
    ask_all(now, to, out);
  }
}

std::optional<TimePoint> ClientVouching::next_deadline() const {
  if (waiting_.empty()) {
    return std::nullopt;
  }
  return std::min(again_, waiting_.begin()->second.give_up);
}

// -- the coordinator --------------------------------------------------------------------------

void AddressBook::begin(const RoundPtr& round) {
  round_ = round;
  nodes_.clear();
}

void AddressBook::add(std::string_view address, NodeId node) {
  const std::string key(without_zone(address));
  if (key.empty()) {  // the address is not known yet
    return;
  }
  // Nodes are added one after another, so an earlier entry of this node is the last one. Many nodes
  // may have the same address, for example that of a container bridge.
  const auto [first, last] = nodes_.equal_range(key);
  if (first == last || std::prev(last)->second != node) {
    nodes_.emplace_hint(last, key, node);
  }
}

std::vector<NodeId> AddressBook::find(std::string_view address) const {
  std::vector<NodeId> out;
  const auto [first, last] = nodes_.equal_range(without_zone(address));
  std::transform(
      first, last, std::back_inserter(out), [](const auto& entry) { return entry.second; });
  return out;
}

}  // namespace muster
