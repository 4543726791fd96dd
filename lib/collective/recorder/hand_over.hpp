// SPDX-License-Identifier: Apache-2.0
// Passes a descriptor for this host's flight recorders to the launcher (base/liveness_page.hpp),
// so that they can be read after all ranks have died. The first rank on a host calls it for each
// communicator. A no-op if our parent is not a muster launcher. Any thread.
#pragma once

namespace muster::collective {

void hand_over_flight_recorder(int recorders);

}  // namespace muster::collective
