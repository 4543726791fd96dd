// SPDX-License-Identifier: Apache-2.0
// AdmissionQueue: the connections of one listener that wait for the answer of an Admission, bounded
// in number and time. Whose they are, and what becomes of them, is its owner's business. Resource;
// one thread.
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
  // Counts up with each connection, so that the lowest one is the oldest.
  using Ticket = std::uint64_t;

  // It must outlive the queue. Without one nobody is asked about.
  void set_admission(Admission* admission, const AdmissionLimits& limits);

  [[nodiscard]] bool asks() const { return admission_ != nullptr; }

  // So much of a connection is read before the question.
  [[nodiscard]] std::size_t first_bytes() const { return limits_.first_bytes; }

  // `answer` is called once, perhaps before ask returns: by the Admission, at the deadline, or
  // when too many wait. Not after forget, and not once the queue is gone.
  void ask(Ticket ticket, int fd, TimePoint now, AdmissionAnswer answer);

  // The connection `fd` is refused: what to say of it, if it is time to say something. Nothing of
  // one that has ended by itself.
  [[nodiscard]] std::optional<std::string> note_refusal(int fd, const Error& why, TimePoint now);

  void forget(Ticket ticket) { asked_.erase(ticket); }

  // The one that has waited longest is refused; there has to be one.
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
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);  // for answers that come too late
};

}  // namespace muster
