// SPDX-License-Identifier: Apache-2.0
// The coordinator of a crowd: a RendezvousNode in a child process, with an agent that has no
// workers. Resource: the destructor stops the child.
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
  // Starts the coordinator of a job that needs `nodes` other nodes and can continue with one
  // fewer.
  [[nodiscard]] static Result<std::unique_ptr<CrowdHost>> start(
      std::size_t nodes, Duration lease, std::shared_ptr<const JobTrust> trust);
  CrowdHost(const CrowdHost&) = delete;
  CrowdHost& operator=(const CrowdHost&) = delete;
  ~CrowdHost();

  [[nodiscard]] std::uint16_t port() const { return port_; }

  [[nodiscard]] const JobTerms& terms() const { return terms_; }

  // Null if connections are unencrypted.
  [[nodiscard]] const JobTrust* trust() const { return trust_.get(); }

  // CPU time used so far.
  [[nodiscard]] Duration cpu_time() const;

 private:
  CrowdHost() = default;

  JobTerms terms_;
  std::shared_ptr<const JobTrust> trust_;
  std::uint16_t port_ = 0;
  pid_t pid_ = -1;
  UniqueFd alive_;  // closing it stops the child
};

}  // namespace muster::bench
