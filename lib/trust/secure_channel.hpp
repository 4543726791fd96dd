// SPDX-License-Identifier: Apache-2.0
// SecureChannel: one end of a TLS 1.3 connection between agents that know the job's key, as a
// state machine: bytes in, bytes out, no sockets and no time. Made by a JobTrust, which outlives
// it. Resources; one thread.
#pragma once

#include "trust/job_key.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

struct ssl_st;
struct ssl_ctx_st;

namespace muster {

// The key of one job and the id that it goes by: what both sides must have.
class JobTrust {
 public:
  JobTrust(std::string_view token, std::string job);
  JobTrust(const JobTrust&) = delete;
  JobTrust& operator=(const JobTrust&) = delete;
  ~JobTrust();

  [[nodiscard]] const JobKey& key() const { return key_; }

  [[nodiscard]] const std::string& job() const { return job_; }

 private:
  friend class SecureChannel;

  struct Free {
    void operator()(ssl_ctx_st* context) const;
  };

  JobKey key_;
  std::string job_;
  std::unique_ptr<ssl_ctx_st, Free> context_;
};

class SecureChannel {
 public:
  // Who connected, and who accepted.
  enum class Side : std::uint8_t { client, server };
  enum class State : std::uint8_t { shaking, open, failed };

  SecureChannel(const JobTrust& trust, Side side);

  // Takes what came from the other end and appends to `plain` what it means, at most as many bytes
  // again. What is to be sent because of it is in take_output().
  State feed(std::string_view bytes, std::string& plain);

  // Only while open.
  void seal(std::string_view plain);

  [[nodiscard]] std::string take_output();

  [[nodiscard]] State state() const { return state_; }

  // After failed: whether the other end said that it does not agree, and the reason in words.
  [[nodiscard]] bool was_refused() const { return was_refused_; }

  [[nodiscard]] const std::string& fault() const { return fault_; }

 private:
  struct Free {
    void operator()(ssl_st* ssl) const;
  };

  void shake();
  void open(std::string& plain);
  void fail();

  std::unique_ptr<ssl_st, Free> ssl_;
  std::string fault_;
  State state_ = State::shaking;
  bool was_refused_ = false;
};

// How much of a client's first words is here. They have to be one record, which ours always are: so
// nothing is kept for a stranger, and nothing computed, before its proof is there as a whole.
enum class FirstRecord : std::uint8_t { incomplete, whole, foreign };
[[nodiscard]] FirstRecord look_at_first_record(std::string_view bytes);

// The longest record of TLS (RFC 8446 §5.1, with its head): more is never waited for.
inline constexpr std::size_t kMaxRecordBytes = 5 + 16384;

}  // namespace muster
