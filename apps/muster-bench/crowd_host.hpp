// SPDX-License-Identifier: Apache-2.0
// The coordinator of a crowd: RendezvousNode in a child process, with an agent that has no workers.
// Resource: the child ends with it.
#pragma once

#include "base/error.hpp"
#include "base/fd.hpp"
#include "base/time.hpp"
#include "rendezvous/wire/round_messages.hpp"
#include "trust/secure_channel.hpp"

#include <cstdint>
#include <memory>

#include <sys/types.h>

namespace muster::bench {

inline constexpr const char* kJob = "crowd";

class CrowdHost {
 public:
  // Of a job for which `nodes` others have to come; it may go on with one less.
  [[nodiscard]] static Result<std::unique_ptr<CrowdHost>> start(
      std::size_t nodes, Duration lease, std::shared_ptr<const JobTrust> trust);
  CrowdHost(const CrowdHost&) = delete;
  CrowdHost& operator=(const CrowdHost&) = delete;
  ~CrowdHost();

  [[nodiscard]] std::uint16_t port() const { return port_; }

  [[nodiscard]] const JobTerms& terms() const { return terms_; }

  // Null: nothing is sealed.
  [[nodiscard]] const JobTrust* trust() const { return trust_.get(); }

  // Time that it has spent on a cpu so far.
  [[nodiscard]] Duration cpu_time() const;

 private:
  CrowdHost() = default;

  JobTerms terms_;
  std::shared_ptr<const JobTrust> trust_;
  std::uint16_t port_ = 0;
  pid_t pid_ = -1;
  UniqueFd alive_;  // it ends when this is closed
};

}  // namespace muster::bench
