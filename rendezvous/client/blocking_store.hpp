// SPDX-License-Identifier: Apache-2.0
// BlockingStore: a client of a TCPStore server (ours, or PyTorch's since 2.1) for code that may
// block, such as workers and the setup of collectives. It has one connection, which only one thread
// at a time may use. Like PyTorch's clients, it prefixes keys with '/', so that both see the same
// keys. Resource type.
#pragma once

#include "rendezvous/client/store.hpp"
#include "rendezvous/client/store_connection.hpp"
#include "rendezvous/wire/store_messages.hpp"

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace muster {

class BlockingStore final : public Store {
 public:
  // Retries until the server answers or `timeout` expires. Errors: unreachable, usage.
  [[nodiscard]] static Result<std::unique_ptr<BlockingStore>> connect(std::string host,
                                                                      std::uint16_t port,
                                                                      Duration timeout);

  [[nodiscard]] Result<void> set(std::string_view key, std::string_view value) override;
  [[nodiscard]] Result<void> append(std::string_view key, std::string_view value) override;
  [[nodiscard]] Result<void> multi_set(
      const std::vector<std::pair<std::string, std::string>>& pairs) override;
  [[nodiscard]] Result<std::string> get(std::string_view key, Duration timeout) override;
  [[nodiscard]] Result<std::vector<std::string>> multi_get(const std::vector<std::string>& keys,
                                                           Duration timeout) override;
  [[nodiscard]] Result<std::int64_t> add(std::string_view key, std::int64_t delta) override;
  [[nodiscard]] Result<std::string> compare_set(std::string_view key,
                                                std::string_view expected,
                                                std::string_view desired) override;
  [[nodiscard]] Result<void> wait(const std::vector<std::string>& keys, Duration timeout) override;
  [[nodiscard]] Result<bool> check(const std::vector<std::string>& keys) override;
  [[nodiscard]] Result<bool> delete_key(std::string_view key) override;
  [[nodiscard]] Result<std::int64_t> num_keys() override;
  [[nodiscard]] Result<std::vector<std::string>> list_keys() override;
  [[nodiscard]] Result<void> queue_push(std::string_view key, std::string_view value) override;
  [[nodiscard]] Result<std::string> queue_pop(std::string_view key, Duration timeout) override;
  [[nodiscard]] Result<std::int64_t> queue_len(std::string_view key) override;
  // Uses generic_barrier if the server is too old to support BARRIER.
  [[nodiscard]] Result<void> barrier(std::string_view key,
                                     std::int64_t world_size,
                                     Duration timeout) override;

 private:
  BlockingStore(std::string host, std::uint16_t port, StoreConnection connection);

  [[nodiscard]] Result<void> tell(Opcode opcode, std::string_view key, std::string_view value);
  [[nodiscard]] Result<void> send(const std::string& request);
  // Sends a request and reads a reply of fixed size.
  [[nodiscard]] Result<std::int64_t> ask_number(const std::string& request);
  [[nodiscard]] Result<std::uint8_t> ask_byte(const std::string& request);
  [[nodiscard]] Result<std::string> ask_bytes(const std::string& request);
  [[nodiscard]] Result<std::int64_t> ask_about(Opcode opcode, std::string_view key);
  [[nodiscard]] Result<std::int64_t> read_number();
  [[nodiscard]] Result<std::string> read_bytes();
  [[nodiscard]] Result<std::string> read(std::size_t size);
  // After sending WAIT or BARRIER: waits for the reply, and cancels the wait at the deadline.
  [[nodiscard]] Result<void> finish_wait(TimePoint deadline, const std::string& message);
  [[nodiscard]] Result<void> wait_until(const std::vector<std::string>& keys,
                                        TimePoint deadline,
                                        Duration timeout);

  std::string host_;
  std::uint16_t port_;
  StoreConnection connection_;
  bool lacks_barrier_ = false;
};

}  // namespace muster
