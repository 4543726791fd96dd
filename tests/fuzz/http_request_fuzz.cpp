// SPDX-License-Identifier: Apache-2.0
// Any bytes, in any split, are requests that are answered, or are refused; a session never exceeds
// its limits. The first byte sets the length of the pieces.
#include "base/check.hpp"
#include "http/session.hpp"

#include <algorithm>
#include <cstdint>
#include <string_view>

namespace {

class Site final : public muster::HttpSite {
 public:
  muster::HttpResponse answer(const muster::HttpRequest& request) override {
    MUSTER_CHECK(request.get && muster::names_loopback(request.host));
    MUSTER_CHECK(request.path.size() <= muster::kRequestHeadBytesMax);
    muster::HttpResponse out = muster::plain_response(200, "ok");
    out.events = request.path == "/e";
    return out;
  }

  std::string events_from(std::uint64_t& cursor) override {
    return cursor++ < 3 ? "data: 1\n\n" : "";
  }

  bool events_over() const override { return true; }
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) {
    return 0;
  }
  Site site;
  muster::HttpCounts counts;
  const muster::TimePoint now{};
  muster::HttpSession session(site, muster::HttpAccess{true}, counts, now);
  std::string_view text(reinterpret_cast<const char*>(data + 1), size - 1);
  const std::size_t piece = data[0] + 1UL;
  while (!text.empty() && !session.close_wanted()) {
    session.take(text.substr(0, piece), now);
    text.remove_prefix(std::min(piece, text.size()));
    while (!session.output().empty()) {
      session.sent(std::min<std::size_t>(session.output().size(), 7), now);
    }
  }
  MUSTER_CHECK(counts.refused <= 1);
  return 0;
}
