// SPDX-License-Identifier: Apache-2.0
// TLS input from strangers before authentication: any bytes, in any split, on either side, cause no
// fault, open no channel and yield no plain text. The first byte of the input selects the split and
// the side, and whether a client's real first message precedes the rest.
#include "base/check.hpp"
#include "trust/secure_channel.hpp"

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>

namespace muster {
namespace {

const JobTrust& trust() {
  static const JobTrust kTrust("0123456789abcdef0123456789abcdef", "job");
  return kTrust;
}

void feed(SecureChannel::Side side, std::string_view bytes, std::size_t piece) {
  SecureChannel channel(trust(), side);
  std::string plain;
  while (!bytes.empty()) {
    const bool may_begin = look_at_first_record(bytes) == FirstRecord::whole;
    MUSTER_CHECK(!may_begin || bytes.size() > 5);
    channel.feed(bytes.substr(0, piece), plain);
    static_cast<void>(channel.take_output());
    MUSTER_CHECK(channel.state() != SecureChannel::State::open && plain.empty());
    bytes.remove_prefix(std::min(piece, bytes.size()));
  }
}

}  // namespace
}  // namespace muster

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace muster;
  using Side = SecureChannel::Side;
  if (size == 0) {
    return 0;
  }
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  const auto side = data[0] < 128 ? Side::client : Side::server;
  const std::size_t piece = 1UL + data[0] % 61;
  feed(side, bytes, piece);
  if (data[0] % 2 == 0) {
    // Simulates a replay by a peer that has recorded it.
    static const std::string kHello = SecureChannel(trust(), Side::client).take_output();
    feed(Side::server, kHello + std::string(bytes), kHello.size() + bytes.size());
  }
  return 0;
}
