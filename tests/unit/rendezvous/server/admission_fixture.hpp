// SPDX-License-Identifier: Apache-2.0
// For tests of listeners: few descriptors, and an Admission that answers when the test says so.
#pragma once

#include "base/fd.hpp"
#include "io/admission.hpp"
#include "support/catch.hpp"

#include <utility>
#include <vector>

#include <fcntl.h>
#include <poll.h>
#include <sys/resource.h>
#include <unistd.h>

namespace muster::testing {

inline bool is_ready(int fd) {
  pollfd watched{fd, POLLIN, 0};
  return ::poll(&watched, 1, 0) == 1;
}

// Sets the soft limit on open files for the duration of its scope.
class FileLimit {
 public:
  explicit FileLimit(rlim_t most) {
    REQUIRE(::getrlimit(RLIMIT_NOFILE, &before_) == 0);
    const rlimit lower{most, before_.rlim_max};
    REQUIRE(::setrlimit(RLIMIT_NOFILE, &lower) == 0);
  }

  FileLimit(const FileLimit&) = delete;
  FileLimit& operator=(const FileLimit&) = delete;

  ~FileLimit() { lift(); }

  void lift() { ::setrlimit(RLIMIT_NOFILE, &before_); }

 private:
  rlimit before_{};
};

// The limit at which exactly `count` more descriptors can be opened.
inline rlim_t limit_for(int count) {
  const UniqueFd next(::fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 0));
  REQUIRE(next);
  return static_cast<rlim_t>(next.get() + count);
}

// Keeps each query pending until the test answers it.
class HeldAdmission : public Admission {
 public:
  void admit(const PeerAddress& peer, AdmissionAnswer answer) override {
    peers.push_back(peer);
    answers.push_back(std::move(answer));
  }

  std::vector<PeerAddress> peers;
  std::vector<AdmissionAnswer> answers;
};

}  // namespace muster::testing
