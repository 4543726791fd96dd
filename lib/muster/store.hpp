// SPDX-License-Identifier: Apache-2.0
// Store: a client of a job's key-value store (muster, torchrun or PyTorch). StoreServer: a server
// in a thread of this process. C++17 wrappers for store.h. One thread at a time may use a Store. A
// timeout leaves the Store usable; after a store error it is disconnected.
#pragma once

#include "muster/result.hpp"
#include "muster/store.h"

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace muster {
inline namespace v1 {

class Store {
 public:
  using Duration = std::chrono::nanoseconds;

  // Retries until the server answers or `timeout` expires. muster and torchrun set MASTER_ADDR and
  // MASTER_PORT; any other TCPStore server works too.
  [[nodiscard]] static Result<Store> connect(const std::string& host,
                                             std::uint16_t port,
                                             Duration timeout = std::chrono::seconds(60)) {
    muster_store_client* made = nullptr;
    if (muster_store_connect(host.c_str(), port, timeout.count(), &made) != 0) {
      return detail::last_error();
    }
    return Store(made);
  }

  // The server does not acknowledge a set, so the next call that waits for a reply reports the
  // failure.
  Result<void> set(const std::string& key, const std::string& value) {
    return detail::result_of(muster_store_set(get(), key.c_str(), bytes(value)));
  }

  // Waits for the key.
  [[nodiscard]] Result<std::string> get(const std::string& key, Duration timeout) {
    muster_bytes value{};
    const int code = muster_store_get(get(), key.c_str(), timeout.count(), &value);
    return text(code, value);
  }

  // Returns the counter's new value. A missing key counts as 0.
  Result<std::int64_t> add(const std::string& key, std::int64_t delta) {
    std::int64_t sum = 0;
    if (muster_store_add(get(), key.c_str(), delta, &sum) != 0) {
      return detail::last_error();
    }
    return sum;
  }

  // Replaces the value if it equals `expected` ("" for a missing key). Returns the resulting value.
  Result<std::string> compare_set(const std::string& key,
                                  const std::string& expected,
                                  const std::string& desired) {
    muster_bytes value{};
    const int code =
        muster_store_compare_set(get(), key.c_str(), bytes(expected), bytes(desired), &value);
    return text(code, value);
  }

  // Waits until all keys exist.
  Result<void> wait(const std::vector<std::string>& keys, Duration timeout) {
    const std::vector<const char*> names = names_of(keys);
    return detail::result_of(muster_store_wait(get(), names.data(), names.size(), timeout.count()));
  }

  // Returns whether all keys exist now.
  [[nodiscard]] Result<bool> check(const std::vector<std::string>& keys) {
    const std::vector<const char*> names = names_of(keys);
    int exist = 0;
    const int code = muster_store_check(get(), names.data(), names.size(), &exist);
    return flag(code, exist);
  }

  // Returns whether the key existed.
  Result<bool> erase(const std::string& key) {
    int existed = 0;
    const int code = muster_store_delete(get(), key.c_str(), &existed);
    return flag(code, existed);
  }

  // Waits until world_size callers have reached this key. Each key serves one barrier.
  Result<void> barrier(const std::string& key, int world_size, Duration timeout) {
    return detail::result_of(muster_store_barrier(get(), key.c_str(), world_size, timeout.count()));
  }

  [[nodiscard]] muster_store_client* get() const { return client_.get(); }

 private:
  struct Disconnect {
    void operator()(muster_store_client* client) const { muster_store_disconnect(client); }
  };

  explicit Store(muster_store_client* client) : client_(client) {}

  static muster_bytes bytes(const std::string& text) { return {text.data(), text.size()}; }

  static Result<std::string> text(int code, muster_bytes value) {
    if (code != 0) {
      return detail::last_error();
    }
    return std::string(static_cast<const char*>(value.data), value.size);
  }

  static Result<bool> flag(int code, int on) {
    if (code != 0) {
      return detail::last_error();
    }
    return on != 0;
  }

  static std::vector<const char*> names_of(const std::vector<std::string>& keys) {
    std::vector<const char*> names;
    names.reserve(keys.size());
    for (const std::string& key : keys) {
      names.push_back(key.c_str());
    }
    return names;
  }

  std::unique_ptr<muster_store_client, Disconnect> client_;
};

// Serves until it is destroyed.
class StoreServer {
 public:
  // Port 0 selects a free port.
  [[nodiscard]] static Result<StoreServer> serve(std::uint16_t port = 0) {
    muster_store* store = nullptr;
    int listening = 0;
    if (muster_store_serve(port, &store, &listening) != 0) {
      return detail::last_error();
    }
    return StoreServer(store, static_cast<std::uint16_t>(listening));
  }

  [[nodiscard]] std::uint16_t port() const { return port_; }

 private:
  struct Close {
    void operator()(muster_store* store) const { muster_store_close(store); }
  };

  StoreServer(muster_store* store, std::uint16_t port) : store_(store), port_(port) {}

  std::unique_ptr<muster_store, Close> store_;
  std::uint16_t port_ = 0;
};

}  // namespace v1
}  // namespace muster
