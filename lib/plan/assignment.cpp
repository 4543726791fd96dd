// SPDX-License-Identifier: Apache-2.0
#include "plan/assignment.hpp"

namespace muster {

Assignment assign_alone(int nproc, int attempt, const Endpoint& store) {
  Assignment out;
  out.world_size = nproc;
  out.role_world_size = nproc;
  out.local_world_size = nproc;
  out.restart_count = attempt;
  out.attempt = attempt;
  out.master_addr = store.host;
  out.master_port = store.port.value_or(0);
  return out;
}

}  // namespace muster
