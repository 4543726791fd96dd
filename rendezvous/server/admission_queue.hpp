// SPDX-License-Identifier: Apache-2.0
// AdmissionQueue: the connections of one listener that wait for a decision by an Admission. Their
// number and waiting time are limited. The owner manages the connections themselves. Resource; one
// thread.
#pragma once

#include "base/error.hpp"
#include "base/time.hpp"
#include "io/admission.hpp"
#include "rendezvous/server/admission_limits.hpp"
#include "rendezvous/server/refusal_notes.hpp"

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>

namespace muster {

class AdmissionQueue {
 public:
  // Increases with each connection, so the lowest ticket belongs to the oldest connection.
  using Ticket = std::uint64_t;

  // The admission must outlive the queue. If it is null, asks() returns false.
  void set_admission(Admission* admission, const AdmissionLimits& limits);

  [[nodiscard]] bool asks() const { return admission_ != nullptr; }

  // The number of bytes to read from a connection before the query.
  [[nodiscard]] std::size_t first_bytes() const { return limits_.first_bytes; }

  // `answer` is called once: by the Admission, at the deadline, or if too many connections are
  // waiting. This may happen before ask returns, but never after forget or after the queue is
  // destroyed.
  void ask(Ticket ticket, int fd, TimePoint now, AdmissionAnswer answer);

  // Returns the log line for the refused connection `fd`, if the rate limit allows one. nullopt if
  // the peer closed the connection.
  [[nodiscard]] std::optional<std::string> note_refusal(int fd, const Error& why, TimePoint now);

  void forget(Ticket ticket) { asked_.erase(ticket); }

  // Refuses the connection that has waited longest. The queue must not be empty.
  void refuse_oldest();

  [[nodiscard]] bool holds(Ticket ticket) const { return asked_.contains(ticket); }

  [[nodiscard]] std::size_t size() const { return asked_.size(); }

  [[nodiscard]] std::optional<TimePoint> next_deadline() const;
  void expire(TimePoint now);

 private:
  struct Asked {
    TimePoint deadline;
    int fd = -1;
    AdmissionAnswer answer;
  };

  void take_answer(Ticket ticket, Result<void> answer);

  Admission* admission_ = nullptr;
  AdmissionLimits limits_;
  std::map<Ticket, Asked> asked_;
  RefusalNotes notes_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);  // detects late answers
};

}  // namespace muster
