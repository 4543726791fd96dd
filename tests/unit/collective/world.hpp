// SPDX-License-Identifier: Apache-2.0
// World: ranks as threads of this process, each with its own communicator.
#pragma once

#include "collective/communicator.hpp"
#include "support/catch.hpp"
#include "unit/collective/local_store.hpp"

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace muster::collective::testing {

// Catch2's assertions are not thread-safe.
inline bool rank_check(bool good, const char* text, const char* file, int line) {
  static std::mutex mutex;
  const std::scoped_lock lock(mutex);
  INFO(file << ":" << line << ": " << text);
  CHECK(good);
  return good;
}

#define RANK_CHECK(...)                                        \
  static_cast<void>(::muster::collective::testing::rank_check( \
      static_cast<bool>(__VA_ARGS__), #__VA_ARGS__, __FILE__, __LINE__))

// Stops the rank if the check fails.
#define RANK_REQUIRE(...)                                                        \
  do {                                                                           \
    if (!::muster::collective::testing::rank_check(                              \
            static_cast<bool>(__VA_ARGS__), #__VA_ARGS__, __FILE__, __LINE__)) { \
      return;                                                                    \
    }                                                                            \
  } while (false)

struct World {
  int ranks = 2;
  Backend backend = Backend::automatic;
  // Ranks on each simulated host, in order; 0: all on this host.
  int per_host = 0;
  Duration timeout = std::chrono::seconds(60);
  std::shared_ptr<muster::testing::LocalStore> store =
      std::make_shared<muster::testing::LocalStore>();

  [[nodiscard]] CommOptions options(int rank) const {
    CommOptions out;
    out.backend = backend;
    out.timeout = timeout;
    out.init_timeout = std::chrono::seconds(60);
    out.arena_bytes = 64UL << 20;
    out.host = per_host == 0 ? "" : "host" + std::to_string(rank / per_host);
    out.address = per_host == 0 ? "" : "127.0.0.1";
    return out;
  }

  using Main = std::function<void(Communicator&)>;

  // Returns when all ranks have finished.
  void run(const Main& rank_main) const {
    std::vector<std::thread> threads;
    std::vector<std::string> errors(static_cast<std::size_t>(ranks));
    for (int rank = 0; rank < ranks; ++rank) {
      threads.emplace_back([this, rank, &rank_main, &errors] {
        Membership membership;
        membership.rank = rank;
        membership.size = ranks;
        auto made = Communicator::create(store, membership, options(rank));
        if (made) {
          rank_main(*made);
        } else {
          errors[static_cast<std::size_t>(rank)] = made.error().text;
        }
      });
    }
    for (auto& thread : threads) {
      thread.join();
    }
    for (const auto& error : errors) {
      CHECK(error == "");
    }
  }
};

inline Error error_of(const Result<Work>& result) {
  if (!result) {
    return result.error();
  }
  const auto waited = result->wait();
  return waited ? Error{} : waited.error();
}

inline Error error_of(const Result<void>& result) {
  return result ? Error{} : result.error();
}

}  // namespace muster::collective::testing
