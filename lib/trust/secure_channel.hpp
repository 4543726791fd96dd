// SPDX-License-Identifier: Apache-2.0
// SecureChannel: one end of a TLS 1.3 connection between agents that share the job's key. A state
// machine that maps input bytes to output bytes, without sockets or clocks. Created from a
// JobTrust, which must outlive it. Resources; one thread.
#pragma once

#include "trust/job_key.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

struct ssl_st;

namespace muster {

// The key of a job, and the job ID that identifies the key. Both ends must have the same key and
// job ID.
class JobTrust {
 public:
  JobTrust(std::string_view token, std::string job);
  JobTrust(const JobTrust&) = delete;
  JobTrust& operator=(const JobTrust&) = delete;
  ~JobTrust();

  [[nodiscard]] const JobKey& key() const { return key_; }

  [[nodiscard]] const std::string& job() const { return job_; }

 private:
  JobKey key_;
  std::string job_;
};

// Creates what all channels of this process share; otherwise the first channel does. Takes about as
// long as two handshakes, so a node calls it while it waits for a peer.
void prepare_channels();

class SecureChannel {
 public:
  // The connecting and the accepting side of a connection.
  enum class Side : std::uint8_t { client, server };
  enum class State : std::uint8_t { shaking, open, failed };

  SecureChannel(const JobTrust& trust, Side side);

  // Processes received bytes and appends the decrypted data to `plain`, which is never longer than
  // the input. take_output() returns the bytes to send in response.
  State feed(std::string_view bytes, std::string& plain);

  // Encrypts data. Call only while the channel is open.
  void seal(std::string_view plain);

  [[nodiscard]] std::string take_output();

  [[nodiscard]] State state() const { return state_; }

  // After a failure: whether the other end rejected the handshake, and the reason for the failure.
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

// How much of a client's first message has arrived. muster always sends this message as a single
// record, and begins the handshake only when the record is complete. A client that has not sent a
// complete proof thus costs no memory or CPU time.
enum class FirstRecord : std::uint8_t { incomplete, whole, foreign };
[[nodiscard]] FirstRecord look_at_first_record(std::string_view bytes);

// The longest TLS record, including its header (RFC 8446 §5.1). We never wait for more bytes.
inline constexpr std::size_t kMaxRecordBytes = 5 + 16384;

}  // namespace muster
