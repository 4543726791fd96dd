// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/node/record_keeper.hpp"

#include "io/own_address.hpp"

#include <asio/io_context.hpp>
#include <fmt/core.h>

#include <algorithm>
#include <utility>

namespace muster {
namespace {

constexpr const char* kNoMemory = "after a restart this node cannot recover its rounds";

}  // namespace

RecordKeeper::RecordKeeper(asio::io_context& loop,
                           std::shared_ptr<const RoundRecord> record,
                           Say say)
    : again_(loop), record_(std::move(record)), say_(std::move(say)) {}

bool RecordKeeper::is_on() const {
  return record_ && record_->is_on();
}

std::optional<Memory> RecordKeeper::recall() {
  if (!is_on()) {
    if (record_) {
      say_(LogLevel::info, fmt::format("{}; {}", record_->trouble(), kNoMemory));
    }
    return std::nullopt;
  }
  recalled_ = true;
  Recalled recalled = record_->read();
  replaces_ = recalled.memory || !recalled.ignored.empty();
  if (!recalled.ignored.empty()) {
    say_(recalled.is_stale ? LogLevel::info : LogLevel::warning,
         recalled.ignored + "; ignoring it and joining as a new node");
    static_cast<void>(record_->discard());  // otherwise touch() would make the record look fresh
  }
  touch();
  return std::move(recalled.memory);
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
  again_.expires_after(record_->touch_interval());
  again_.async_wait([this](const asio::error_code& error) {
    if (!error) {
      touch();
    }
  });
}

// No local worker runs while a round is being accepted, so a slow disk blocks nothing else. If
// recording fails, no older record may remain, because it would be wrong. The first record replaces
// none, so the start of a job does not wait for the disk: a node that loses this record returns as
// a new one.
NodeEvent RecordKeeper::keep(const RecordRound& wanted) {
  const RoundId round = wanted.memory.accepted->id;
  kept_ = wanted.memory;
  const auto written = write(round.number > 0 && replaces_);
  replaces_ = true;
  if (!written && !record_->discard() && record_->read().memory) {
    return RecordFailed{round, written.error()};
  }
  if (!written && !std::exchange(told_, true)) {
    say_(LogLevel::info, fmt::format("{}; {}", written.error().message, kNoMemory));
  }
  return RoundRecorded{round};
}

// A failure to record the key is not an error: a restarted agent is then recognized by its address.
void RecordKeeper::keep_job_key(const std::string& secret) {
  if (std::exchange(job_key_, secret) != secret && kept_) {
    static_cast<void>(write(true));
  }
}

Result<void> RecordKeeper::write(bool durable) {
  kept_->job_key = job_key_;
  return record_->write(*kept_, durable);
}

// After join_timeout, all nodes abandon the job. If a record remained, a restarted node would wait
// for the same members again.
void RecordKeeper::end(const NodeEnd& how) {
  const auto* failed = std::get_if<EndFailed>(&how);
  const bool is_given_up = failed != nullptr && failed->error.code == Errc::timed_out && recalled_;
  if (is_on() && (failed == nullptr || is_given_up)) {
    record_->remove();
  }
}

}  // namespace muster
