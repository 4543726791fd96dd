// SPDX-License-Identifier: Apache-2.0
// OnHang: the action on a hang (--on-hang). The configuration, the watch and the messages between
// nodes use it. Value type.
#pragma once

namespace muster {

// The values are part of the wire format, so they never change.
enum class OnHang { report, restart, stop };

}  // namespace muster
