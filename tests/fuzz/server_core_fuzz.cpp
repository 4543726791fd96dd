// SPDX-License-Identifier: Apache-2.0
// A few sessions of ServerCore follow the input: open, send bytes, read some of their output,
// close. Limits are small, so that they are reached. Checks that memory stays within its limit,
// that a session in use is open, and that no memory and no work is left after all sessions have
// ended.
#include "base/check.hpp"
#include "rendezvous/server/server_core.hpp"

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

namespace muster {
namespace {

constexpr ServerLimits kLimits{.stored_bytes = 8'000,
                               .reply_bytes = 1'000,
                               .unsent_high_water = 300,
                               .held_bytes = 3'000,
                               .awaited_keys = 6,
                               .turn_units = 3};

class Play {
 public:
  void run(std::string_view script) {
    while (script.size() >= 2) {
      const auto what = static_cast<unsigned char>(script[0]);
      const std::size_t size = static_cast<unsigned char>(script[1]);
      script.remove_prefix(2);
      auto& session = sessions_[what % sessions_.size()];
      if (!session) {
        session = core_.open();
      }
      if (what < 200) {
        const std::string_view bytes = script.substr(0, size);
        script.remove_prefix(bytes.size());
        if (core_.wants_input(*session)) {
          core_.receive(*session, bytes);
        }
      } else if (what < 240) {
        core_.sent(*session, std::min(size, core_.output(*session).size()));
      } else {
        end(session);
      }
      if (size % 2 == 0) {
        core_.advance();
      }
      settle();
    }
    for (auto& session : sessions_) {
      end(session);
    }
    while (core_.has_work()) {
      core_.advance();
    }
    MUSTER_CHECK(core_.held_bytes() == 0);
  }

 private:
  void settle() {
    for (const SessionId id : core_.take_touched()) {
      MUSTER_CHECK(core_.is_open(id));
    }
    MUSTER_CHECK(core_.check_invariants().empty());
    for (auto& session : sessions_) {
      if (session && !core_.closing(*session).empty()) {
        end(session);
      }
    }
  }

  void end(std::optional<SessionId>& session) {
    if (session) {
      core_.forget(*session);
      session.reset();
    }
  }

  ServerCore core_{kLimits};
  std::array<std::optional<SessionId>, 4> sessions_;
};

}  // namespace
}  // namespace muster

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  muster::Play().run({reinterpret_cast<const char*>(data), size});
  return 0;
}
