// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/client/blocking_store.hpp"

#include "base/bytes.hpp"
#include "base/clock.hpp"
#include "base/plural.hpp"
#include "base/text.hpp"
#include "rendezvous/wire/limits.hpp"
#include "rendezvous/wire/store_encoder.hpp"

#include <algorithm>
#include <utility>

namespace muster {
namespace {

// A server that has not answered an ordinary request for this long is considered dead.
constexpr Duration kAnswerTimeout = std::chrono::minutes(5);

std::string on_wire(std::string_view key) {
  return "/" + std::string(key);
}

std::vector<std::string> on_wire(const std::vector<std::string>& keys) {
  std::vector<std::string> out;
  out.reserve(keys.size());
  for (const std::string& key : keys) {
    out.push_back(on_wire(key));
  }
  return out;
}

// Checks the length limits before sending, because an error created here can name the key.
Result<void> fits(std::string_view key, std::string_view value) {
  if (key.size() + 1 > kMaxKeyBytes) {
    return failure(Errc::protocol,
                   "a key of " + std::to_string(key.size()) + " bytes is too long; the limit is " +
                       std::to_string(kMaxKeyBytes - 1));
  }
  if (value.size() > kMaxValueBytes) {
    return failure(Errc::protocol,
                   "the value of '" + std::string(key) + "' has " + std::to_string(value.size()) +
                       " bytes; the limit is " + std::to_string(kMaxValueBytes));
  }
  return {};
}

Result<void> fit(const std::vector<std::string>& keys) {
  if (keys.size() > kMaxKeyCount) {
    return failure(Errc::protocol,
                   std::to_string(keys.size()) + " keys in one request; the limit is " +
                       std::to_string(kMaxKeyCount));
  }
  for (const std::string& key : keys) {
    if (auto good = fits(key, {}); !good) {
      return good;
    }
  }
  return {};
}

}  // namespace

Result<std::unique_ptr<BlockingStore>> BlockingStore::connect(std::string host,
                                                              std::uint16_t port,
                                                              Duration timeout) {
  auto connection = StoreConnection::open(host, port, timeout);
  MUSTER_RETURN_IF_ERROR(connection);
  return std::unique_ptr<BlockingStore>(
      new BlockingStore(std::move(host), port, std::move(*connection)));
}

BlockingStore::BlockingStore(std::string host, std::uint16_t port, StoreConnection connection)
    : host_(std::move(host)), port_(port), connection_(std::move(connection)) {}

Result<void> BlockingStore::set(std::string_view key, std::string_view value) {
  return tell(Opcode::set, key, value);
}

Result<void> BlockingStore::append(std::string_view key, std::string_view value) {
  return tell(Opcode::append, key, value);
}

Result<void> BlockingStore::queue_push(std::string_view key, std::string_view value) {
  return tell(Opcode::queue_push, key, value);
}

Result<void> BlockingStore::multi_set(
    const std::vector<std::pair<std::string, std::string>>& pairs) {
  std::string request;
  RequestWriter writer(request, Opcode::multi_set);
  writer.number(static_cast<std::int64_t>(pairs.size()));
  for (const auto& [key, value] : pairs) {
    if (auto good = fits(key, value); !good) {
      return good;
    }
    writer.string(on_wire(key)).string(value);
  }
  if (pairs.size() > kMaxKeyCount || request.size() > kMaxRequestBytes) {
    return failure(Errc::protocol,
                   "multi_set is too large: " + std::to_string(pairs.size()) + " pairs, " +
                       std::to_string(request.size()) + " bytes; split it");
  }
  return send(request);
}

Result<std::string> BlockingStore::get(std::string_view key, Duration timeout) {
  MUSTER_RETURN_IF_ERROR(wait({std::string(key)}, timeout));
  std::string request;
  RequestWriter(request, Opcode::get).string(on_wire(key));
  return ask_bytes(request);
}

Result<std::vector<std::string>> BlockingStore::multi_get(const std::vector<std::string>& keys,
                                                          Duration timeout) {
  MUSTER_RETURN_IF_ERROR(wait(keys, timeout));
  std::string request;
  RequestWriter(request, Opcode::multi_get).keys(on_wire(keys));
  MUSTER_RETURN_IF_ERROR(send(request));
  std::vector<std::string> values;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    auto value = read_bytes();
    MUSTER_RETURN_IF_ERROR(value);
    values.push_back(std::move(*value));
  }
  return values;
}

Result<std::int64_t> BlockingStore::add(std::string_view key, std::int64_t delta) {
  MUSTER_RETURN_IF_ERROR(fits(key, {}));
  std::string request;
  RequestWriter(request, Opcode::add).string(on_wire(key)).number(delta);
  return ask_number(request);
}

Result<std::string> BlockingStore::compare_set(std::string_view key,
                                               std::string_view expected,
                                               std::string_view desired) {
  auto good = fits(key, expected);
  good = good ? fits(key, desired) : good;
  MUSTER_RETURN_IF_ERROR(good);
  std::string request;
  RequestWriter(request, Opcode::compare_set).string(on_wire(key)).string(expected).string(desired);
  return ask_bytes(request);
}

Result<void> BlockingStore::wait(const std::vector<std::string>& keys, Duration timeout) {
  return wait_until(keys, steady_now() + timeout, timeout);
}

Result<void> BlockingStore::wait_until(const std::vector<std::string>& keys,
                                       TimePoint deadline,
                                       Duration timeout) {
  if (auto good = fit(keys); !good) {
    return good;
  }
  std::string request;
  RequestWriter(request, Opcode::wait).keys(on_wire(keys));
  if (auto sent = send(request); !sent) {
    return sent;
  }
  return finish_wait(deadline,
                     "timed out after " + describe(timeout) + " waiting for the " +
                         std::string(agreeing(keys.size(), "key ", "keys ")) + join(keys, ", "));
}

// The wait is cancelled at the deadline, so that a late reply is not mistaken for the reply to a
// later request. If the reply was sent before the cancellation arrived, the wait has succeeded.
Result<void> BlockingStore::finish_wait(TimePoint deadline, const std::string& message) {
  const auto came = connection_.await(1, deadline);
  MUSTER_RETURN_IF_ERROR(came);
  std::string cancel;
  if (!*came) {
    RequestWriter(cancel, Opcode::cancel_wait);
    if (auto sent = send(cancel); !sent) {
      return sent;
    }
  }
  const auto first = read(1);
  MUSTER_RETURN_IF_ERROR(first);
  const bool over = load_int<std::uint8_t>(*first) == kStopWaiting;
  if (over && !*came) {
    MUSTER_RETURN_IF_ERROR(read(1));
  }
  return over ? Result<void>() : failure(Errc::timed_out, message);
}

Result<bool> BlockingStore::check(const std::vector<std::string>& keys) {
  MUSTER_RETURN_IF_ERROR(fit(keys));
  std::string request;
  RequestWriter(request, Opcode::check).keys(on_wire(keys));
  const auto answer = ask_byte(request);
  MUSTER_RETURN_IF_ERROR(answer);
  return *answer == kCheckReady;
}

Result<bool> BlockingStore::delete_key(std::string_view key) {
  const auto deleted = ask_about(Opcode::delete_key, key);
  MUSTER_RETURN_IF_ERROR(deleted);
  return *deleted > 0;
}

Result<std::int64_t> BlockingStore::num_keys() {
  std::string request;
  RequestWriter(request, Opcode::get_num_keys);
  return ask_number(request);
}

Result<std::vector<std::string>> BlockingStore::list_keys() {
  std::string request;
  RequestWriter(request, Opcode::list_keys);
  const auto count = ask_number(request);
  MUSTER_RETURN_IF_ERROR(count);
  std::vector<std::string> keys;
  for (std::int64_t i = 0; i < *count; ++i) {
    auto key = read_bytes();
    MUSTER_RETURN_IF_ERROR(key);
    if (key->starts_with('/')) {
      keys.push_back(key->substr(1));
    }
  }
  std::ranges::sort(keys);
  return keys;
}

Result<std::string> BlockingStore::queue_pop(std::string_view key, Duration timeout) {
  const TimePoint deadline = steady_now() + timeout;
  while (true) {
    MUSTER_RETURN_IF_ERROR(wait_until({std::string(key)}, deadline, timeout));
    const auto length = ask_about(Opcode::queue_pop, key);
    MUSTER_RETURN_IF_ERROR(length);
    if (*length > 0) {
      return read_bytes();
    }
    // Another client popped the element first, or the key also has a value, so WAIT returned
    // immediately.
    if (steady_now() >= deadline) {
      return failure(Errc::timed_out, "the queue " + std::string(key) + " is empty");
    }
  }
}

Result<std::int64_t> BlockingStore::queue_len(std::string_view key) {
  return ask_about(Opcode::queue_len, key);
}

Result<void> BlockingStore::barrier(std::string_view key,
                                    std::int64_t world_size,
                                    Duration timeout) {
  if (auto good = fits(key, {}); !good) {
    return good;
  }
  if (lacks_barrier_) {
    return generic_barrier(*this, key, world_size, timeout);
  }
  const TimePoint deadline = steady_now() + timeout;
  std::string request;
  RequestWriter(request, Opcode::barrier).string(on_wire(key)).number(world_size);
  if (auto sent = send(request); !sent) {
    return sent;
  }
  auto passed = finish_wait(
      deadline, "timed out after " + describe(timeout) + " at the barrier " + std::string(key));
  if (passed || passed.error().code != Errc::closed) {
    return passed;
  }
  // A server older than PyTorch 2.11 closes the connection when it receives BARRIER. If the server
  // still accepts connections, assume that it is such an older server.
  const Duration left = std::max(deadline - steady_now(), Duration::zero());
  auto again = StoreConnection::open(host_, port_, left);
  if (!again) {
    return passed;
  }
  connection_ = std::move(*again);
  lacks_barrier_ = true;
  return generic_barrier(*this, key, world_size, left);
}

Result<void> BlockingStore::tell(Opcode opcode, std::string_view key, std::string_view value) {
  if (auto good = fits(key, value); !good) {
    return good;
  }
  std::string request;
  RequestWriter(request, opcode).string(on_wire(key)).string(value);
  return send(request);
}

Result<void> BlockingStore::send(const std::string& request) {
  return connection_.send(request, steady_now() + kAnswerTimeout);
}

Result<std::string> BlockingStore::read(std::size_t size) {
  auto bytes = connection_.receive(size, steady_now() + kAnswerTimeout);
  if (!bytes) {
    // A late reply would be mistaken for the reply to a later request.
    connection_.close();
  }
  return bytes;
}

Result<std::int64_t> BlockingStore::read_number() {
  const auto bytes = read(sizeof(std::int64_t));
  MUSTER_RETURN_IF_ERROR(bytes);
  return load_int<std::int64_t>(*bytes);
}

Result<std::string> BlockingStore::read_bytes() {
  const auto size = read_number();
  MUSTER_RETURN_IF_ERROR(size);
  if (*size < 0) {
    connection_.close();
    return failure(Errc::protocol, "the store sent a negative length");
  }
  return read(static_cast<std::size_t>(*size));
}

Result<std::int64_t> BlockingStore::ask_number(const std::string& request) {
  MUSTER_RETURN_IF_ERROR(send(request));
  return read_number();
}

Result<std::uint8_t> BlockingStore::ask_byte(const std::string& request) {
  MUSTER_RETURN_IF_ERROR(send(request));
  const auto bytes = read(1);
  MUSTER_RETURN_IF_ERROR(bytes);
  return load_int<std::uint8_t>(*bytes);
}

Result<std::string> BlockingStore::ask_bytes(const std::string& request) {
  MUSTER_RETURN_IF_ERROR(send(request));
  return read_bytes();
}

Result<std::int64_t> BlockingStore::ask_about(Opcode opcode, std::string_view key) {
  MUSTER_RETURN_IF_ERROR(fits(key, {}));
  std::string request;
  RequestWriter(request, opcode).string(on_wire(key));
  return ask_number(request);
}

}  // namespace muster
