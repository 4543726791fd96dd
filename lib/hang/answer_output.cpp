// SPDX-License-Identifier: Apache-2.0
#include "hang/answer_output.hpp"

#include <algorithm>

namespace muster::hang {

void AnswerOutput::asked(int rank, std::uint64_t bytes, TimePoint now) {
  // The rank may still be answering the previous query. In that case, its output so far belongs to
  // the previous answer.
  static_cast<void>(count(rank, bytes, now));
  Rank& one = ranks_[rank];
  one.last = bytes;
  one.until = now + kAnswerOutput;
}

void AnswerOutput::answered(TimePoint now) {
  for (auto& [number, rank] : ranks_) {
    // Only shortens the period, because a period that is already over must not start again.
    rank.until = std::min(rank.until, now + kAnswerTail);
  }
}

bool AnswerOutput::is_answering(int rank, TimePoint now) const {
  const auto found = ranks_.find(rank);
  return found != ranks_.end() && now < found->second.until;
}

std::uint64_t AnswerOutput::count(int rank, std::uint64_t bytes, TimePoint now) {
  const auto found = ranks_.find(rank);
  if (found == ranks_.end()) {
    return bytes;
  }
  Rank& one = found->second;
  if (now < one.until && bytes > one.last) {
    one.answers += bytes - one.last;
  }
  one.last = bytes;
  // The caller's total may start again at zero, so the difference could wrap around.
  return bytes < one.answers ? 0 : bytes - one.answers;
}

}  // namespace muster::hang
