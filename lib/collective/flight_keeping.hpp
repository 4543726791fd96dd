// SPDX-License-Identifier: Apache-2.0
// Gives the launcher a descriptor of this host's flight recorders (base/life_page.hpp), so that
// they can be read when all ranks are dead. Called by the first rank of a host for each
// communicator; does nothing where no launcher of ours is our parent. Any thread.
#pragma once

namespace muster::collective {

void give_flights(int recorders);

}  // namespace muster::collective
