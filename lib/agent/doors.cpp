// SPDX-License-Identifier: Apache-2.0
#include "agent/doors.hpp"

namespace muster {

void Doors::guard(const std::function<void(const std::string&)>& warn) {
  for (UserAdmission* const door : {&agents, &store}) {
    door->set_notice(warn);
    if (::geteuid() == 0) {
      door->set_exception([this](const SocketOwner& owner) {
        return job_sockets.find(owner.inode) == JobSockets::Found::yes;
      });
    }
  }
}

void Doors::guard_shared(SharedRounds& rounds, StoreVia store_via) {
  if (store_via != StoreVia::open) {
    store.set_elsewhere(&rounds.vouching());
  }
  const std::string forwards =
      ", or, if it forwards connections from other hosts (a sidecar, ssh -L), ";
  agents.set_advice(forwards + "pass the same --token-file on all nodes, or --token=none");
  if (store_via == StoreVia::direct) {
    store.set_advice(forwards + "use --store-via=proxy");
  }
}

}  // namespace muster
