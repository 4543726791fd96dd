// SPDX-License-Identifier: Apache-2.0
// Clients of the workers' store. In each round, every node except the first lets one worker
// connect, and a stranger on its machine tries as well. The worker is never refused while it lives,
// unless the answer is late. The stranger is never admitted.
#include "sim/nodes/nodes_world.hpp"

#include <algorithm>
#include <memory>

namespace muster::sim {
namespace {

constexpr Duration kConnectsAfter = std::chrono::milliseconds(1);
constexpr Duration kLooksFor = std::chrono::microseconds(100);

// The ports encode its index in the list, from 1.
StoreClient connection_of(std::uint64_t client, std::string from, std::string to) {
  return {.host = std::move(from),
          .port = static_cast<std::uint16_t>(client & 0xFFFFU),
          .store_host = std::move(to),
          .store_port = static_cast<std::uint16_t>(client >> 16U)};
}

std::uint64_t number_of(const StoreClient& connection) {
  return connection.port + (std::uint64_t{connection.store_port} << 16U);
}

}  // namespace

void NodesWorld::expect_client(std::uint32_t number) {
  queue_.after(
      kConnectsAfter,
      Happening{
          Kind::client_connects, 0, number, agents_[number].workers.generation, nullptr, nullptr});
}

void NodesWorld::connect_clients(std::uint32_t number) {
  const Agent& agent = agents_[number];
  if (!agent.workers.alive) {
    return;
  }
  const NodeId id = agent.workers.round->members.front().id;
  const auto host = std::ranges::find_if(
      agents_, [&](const Agent& other) { return other.info.id == id && lives(other); });
  if (host == agents_.end()) {
    return;
  }
  const auto to = static_cast<std::uint32_t>(host - agents_.begin());
  for (const bool is_worker : {true, false}) {
    clients_.push_back({is_worker ? number : kNobody, agent.workers.generation, false});
    const std::uint64_t client = clients_.size();
    to_agent(to,
             VouchWanted{client,
                         connection_of(client,
                                       machines_[agent.machine].address,
                                       machines_[agents_[to].machine].address)});
  }
}

void NodesWorld::find_owner(std::uint32_t number, const Vouch& question) {
  queue_.after(kLooksFor,
               Happening{Kind::owner_found,
                         0,
                         number,
                         0,
                         std::make_shared<const RoundMessage>(question),
                         nullptr});
}

bool NodesWorld::is_worker_of(std::uint32_t number, const Client& client) const {
  const Workers& workers = agents_[number].workers;
  return client.agent == number && workers.alive && workers.generation == client.generation;
}

void NodesWorld::answer_owner(std::uint32_t number, const Vouch& question) {
  const Client& client = clients_.at(number_of(question.client) - 1);
  const auto answer = is_worker_of(number, client) ? VouchAnswer::ours : VouchAnswer::other_process;
  to_agent(number, OwnerFound{question, answer});
}

void NodesWorld::judge_client(const VouchKnown& known) {
  Client& client = clients_.at(known.client - 1);
  if (client.judged) {
    complain("a store client was judged twice");
  }
  client.judged = true;
  const bool is_worker = client.agent != kNobody && is_worker_of(client.agent, client);
  if (!known.refused && client.agent == kNobody) {
    complain("a stranger was admitted to the workers' store");
  }
  // A worker that is being stopped, or on a frozen machine, may meet a store whose round is over.
  const bool is_needed = is_worker && !agents_[client.agent].workers.stopping &&
                         !machines_[agents_[client.agent].machine].frozen;
  if (known.refused && is_needed && known.refused->code != Errc::timed_out) {
    complain("a worker was refused by its store: " + known.refused->message);
  }
}

}  // namespace muster::sim
