// SPDX-License-Identifier: Apache-2.0
// The datagrams that Kineto, PyTorch's profiler, exchanges with a daemon such as dynolog if
// KINETO_USE_DAEMON is set: a header and data, in the machine's byte order. Format: dynolog's
// ipcfabric/FabricManager.h and ipcfabric/Utils.h. Pure.
#pragma once

#include "status/profile_path.hpp"

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace muster {

// Larger datagrams are no requests of Kineto. A request names the pids of all ancestors.
inline constexpr std::size_t kKinetoBytesMax = 65536;

struct KinetoMessage {
  std::string type;
  std::string data;
  bool operator==(const KinetoMessage&) const = default;
};

// Asks for a configuration every 5 s. The answer has the same type; without a configuration, its
// data are empty. A process waits only 50 ms for the answer.
inline constexpr std::string_view kKinetoRequest = "req";

// Registers a process with its GPU. The answer has the same type and an int32: the number of
// registered processes.
inline constexpr std::string_view kKinetoContext = "ctxt";

// Nullopt if the datagram is malformed.
[[nodiscard]] std::optional<KinetoMessage> decode_kineto(std::string_view datagram);

[[nodiscard]] std::string encode_kineto(const KinetoMessage& message);

// The configuration that makes a process record this trace.
[[nodiscard]] std::string kineto_configuration(const ProfileRequest& request);

}  // namespace muster
