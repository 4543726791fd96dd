// SPDX-License-Identifier: Apache-2.0
// A StoreCore with one call per request, for its tests: encodes the request, decodes it like the
// server, and returns the reply.
#pragma once

#include "rendezvous/store/store_core.hpp"
#include "rendezvous/wire/store_decoder.hpp"
#include "rendezvous/wire/store_encoder.hpp"
#include "support/catch.hpp"
#include "support/hex.hpp"
#include "unit/rendezvous/store/store_requests.hpp"

#include <string>
#include <vector>

namespace muster::testing {

struct StoreFixture {
  explicit StoreFixture(const ServerLimits& limits = {}) : core(limits) {}

  StoreCore core;
  std::vector<Push> pushes;  // from the last request
  std::string refusal;       // from the last request; empty if it was served
  SessionId session = 1;     // the session that sends the requests

  std::string ask(const std::string& bytes) {
    StoreDecoder decoder;
    Request request;
    std::size_t consumed = 0;
    std::string input = from_hex("00CEF7853C") + bytes;
    REQUIRE(decoder.next(input, request, consumed) == StoreDecoder::Status::complete);
    input.erase(0, consumed);
    REQUIRE(decoder.next(input, request, consumed) == StoreDecoder::Status::complete);
    REQUIRE(consumed == input.size());
    return handle(request);
  }

  std::string handle(Request request) {
    pushes.clear();
    refusal.clear();
    std::string reply;
    core.begin_turn();
    if (auto done = core.handle(session, request, reply, pushes); !done) {
      refusal = done.error().message;
    } else {
      REQUIRE(*done != StoreCore::Served::partly);
    }
    REQUIRE(core.check_invariants() == "");
    return reply;
  }

  std::string ask_strings(Opcode opcode, const std::vector<std::string>& strings) {
    return ask(with_strings(opcode, strings));
  }

  std::string ask_keys(Opcode opcode, const std::vector<std::string>& keys) {
    return ask(with_keys(opcode, keys));
  }

  std::string ask_number(Opcode opcode, const std::string& key, std::int64_t number) {
    std::string bytes;
    RequestWriter(bytes, opcode).string(key).number(number);
    return ask(bytes);
  }

  void set(const std::string& key, const std::string& value) {
    CHECK(ask_strings(Opcode::set, {key, value}).empty());
  }

  std::string get(const std::string& key) {
    const std::string reply = ask_strings(Opcode::get, {key});
    std::string_view items = reply;
    return reply.empty() ? "" : std::string(take_item(items));
  }

  std::int64_t add(const std::string& key, std::int64_t delta) {
    const std::string reply = ask_number(Opcode::add, key, delta);
    return reply.empty() ? -999 : load_int<std::int64_t>(reply);
  }

  std::int64_t number(Opcode opcode, const std::string& key) {
    return load_int<std::int64_t>(ask_strings(opcode, {key}));
  }

  std::vector<SessionId> woken() const {
    std::vector<SessionId> out;
    for (const Push& push : pushes) {
      out.push_back(push.session);
    }
    return out;
  }
};

inline std::string byte(std::uint8_t value) {
  return std::string(1, static_cast<char>(value));
}

}  // namespace muster::testing
