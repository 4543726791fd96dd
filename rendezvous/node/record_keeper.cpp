// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/node/record_keeper.hpp"

#include "io/own_address.hpp"

#include <asio/io_context.hpp>

#include <algorithm>
#include <utility>

namespace muster {
namespace {

constexpr Duration kTouchEach = std::chrono::seconds(30);

}  // namespace

RecordKeeper::RecordKeeper(asio::io_context& loop,
                           std::shared_ptr<const RoundRecord> record,
                           Say say)
    : again_(loop), record_(std::move(record)), say_(std::move(say)) {}

std::optional<Memory> RecordKeeper::recall() {
  if (!record_) {
    return std::nullopt;
  }
  auto memory = record_->read();
  touch();
  return memory;
}

std::string own_address_in(const std::optional<Memory>& memory) {
  if (!memory) {
    return "";
  }
  const Round& last = memory->accepted->id.number > 0 ? *memory->accepted : *memory->started;
  const auto ours = std::ranges::find_if(last.members, [&](const NodeInfo& member) {
    return std::ranges::find(memory->ids, member.id) != memory->ids.end();
  });
  return ours != last.members.end() && is_own_address(ours->address) ? ours->address : "";
}

void RecordKeeper::touch() {
  record_->touch();
  again_.expires_after(kTouchEach);
  again_.async_wait([this](const asio::error_code& error) {
    if (!error) {
      touch();
    }
  });
}

// No worker of ours runs when a round is accepted, so that a slow disk holds up nothing else. If it
// cannot be recorded, nothing older may be left: that would be a false testimony.
NodeEvent RecordKeeper::keep(const RecordRound& wanted) {
  const RoundId round = wanted.memory.accepted->id;
  const auto written = record_->write(wanted.memory, round.number > 0);
  if (!written && !record_->remove()) {
    return RecordFailed{round, written.error()};
  }
  if (!written && !std::exchange(told_, true)) {
    say_(written.error().message + "; if this node is started again, it remembers no round");
  }
  return RoundRecorded{round};
}

void RecordKeeper::end(const NodeEnd& how) {
  if (record_ && !std::holds_alternative<EndFailed>(how)) {
    record_->remove();
  }
}

}  // namespace muster
