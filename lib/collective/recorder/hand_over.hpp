// SPDX-License-Identifier: Apache-2.0
// Gives the launcher a descriptor of this host's flight recorders (base/liveness_page.hpp), so that
// they can be read when all ranks are dead. Called by the first rank of a host for each
// communicator; does nothing where no launcher of ours is our parent. Any thread.
#pragma once

namespace muster::collective {

void hand_over_flight_recorder(int recorders);

}  // namespace muster::collective
