// SPDX-License-Identifier: Apache-2.0
// Messages between nodes about a hang are parsed or refused. Whatever was parsed is judged, and
// stays the same when it is encoded and decoded again. The first byte selects the kind of the rest.
#include "base/check.hpp"
#include "hang/report/findings_codec.hpp"
#include "hang/report/verdict_text.hpp"

#include <cstdint>
#include <string>
#include <string_view>

namespace {

using namespace muster::hang;

constexpr std::size_t kRoom = 768UL * 1024;

void judge_findings(std::string_view bytes) {
  const auto seen = decode_findings(bytes);
  if (!seen) {
    return;
  }
  const std::string again = encode_findings(*seen, kRoom);
  const auto same = decode_findings(again);
  MUSTER_CHECK(same && *same == *seen);
  const WholeVerdict whole =
      judge_all({{.name = "a", .rank_first = 0, .ranks = 2, .evidence = *seen},
                 {.name = "b", .rank_first = 2, .ranks = 2, .state = NodeState::silent}});
  MUSTER_CHECK(block_of(whole.verdict, whole.facts).size() <= kBlockLinesMax);
  MUSTER_CHECK(whole.acting_rank >= -1);
  MUSTER_CHECK(decode_verdict(encode_verdict(whole, 65536)).has_value());
}

void show_verdict(std::string_view bytes) {
  const auto whole = decode_verdict(bytes);
  if (!whole) {
    return;
  }
  const auto same = decode_verdict(encode_verdict(*whole, std::size_t{64} << 20));
  MUSTER_CHECK(same && *same == *whole);
  MUSTER_CHECK(block_of(whole->verdict, whole->facts).size() <= kBlockLinesMax);
  MUSTER_CHECK(!json_of(whole->verdict, whole->facts).empty());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) {
    return 0;
  }
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  if (data[0] % 2 == 0) {
    judge_findings(bytes);
  } else {
    show_verdict(bytes);
  }
  return 0;
}
