// SPDX-License-Identifier: Apache-2.0
#include "collective/bootstrap/bootstrap.hpp"

#include "base/bytes.hpp"
#include "base/clock.hpp"
#include "base/fd.hpp"
#include "base/random.hpp"
#include "collective/bootstrap/start_watch.hpp"
#include "rendezvous/client/store.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace muster::collective {
namespace {

std::string card_key(const BootstrapContext& context, std::string_view topic, int rank) {
  return fmt::format("{}{}/{}", context.prefix, topic, rank);
}

std::string exchanging(const BootstrapContext& context, std::string_view topic) {
  return fmt::format(
      "rank {} of {}, exchanging '{}' through the store", context.rank, context.size, topic);
}

// Returns the timeout error, which lists the ranks that have not published their cards.
Error missing_ranks(const BootstrapContext& context, std::string_view topic) {
  Error error{.code = Errc::timeout};
  std::string names;
  int missing = 0;
  for (int rank = 0; rank < context.size; ++rank) {
    const auto there = context.store->check({card_key(context, topic, rank)});
    if (there && *there) {
      continue;
    }
    if (++missing <= 8) {
      names += (names.empty() ? "" : ", ") + std::to_string(rank);
      error.rank = error.rank < 0 ? rank : error.rank;
    }
  }
  if (missing == 0) {
    error.rank = 0;
    error.text = fmt::format(
        "rank {}: all ranks arrived, but rank 0 did not confirm in time: it has died or is hung",
        context.rank);
    return error;
  }
  error.text = fmt::format("rank {}: {} of {} ranks did not arrive in time: {}{}",
                           context.rank,
                           missing,
                           context.size,
                           names,
                           missing > 8 ? ", …" : "");
  return error;
}

std::string join_cards(const std::vector<std::string>& cards) {
  std::string out;
  for (const auto& card : cards) {
    append_int(out, static_cast<std::uint32_t>(card.size()));
    out += card;
  }
  return out;
}

Result<std::vector<std::string>> split_cards(std::string_view all, int size) {
  std::vector<std::string> out;
  while (all.size() >= sizeof(std::uint32_t)) {
    const auto length = load_int<std::uint32_t>(all);
    all.remove_prefix(sizeof(length));
    if (length > all.size()) {
      break;
    }
    out.emplace_back(all.substr(0, length));
    all.remove_prefix(length);
  }
  if (!all.empty() || out.size() != static_cast<std::size_t>(size)) {
    return failure(Errc::store, "the ranks' entries in the store are malformed");
  }
  return out;
}

// Rank 0 reads all cards once and publishes them as a single value for the other ranks.
Result<std::string> gather_cards(const BootstrapContext& context, std::string_view topic) {
  std::vector<std::string> keys;
  keys.reserve(static_cast<std::size_t>(context.size));
  for (int rank = 0; rank < context.size; ++rank) {
    keys.push_back(card_key(context, topic, rank));
  }
  const auto cards = await_keys(context, keys, exchanging(context, topic));
  if (!cards) {
    return std::unexpected(cards.error().code == Errc::timeout && cards.error().rank < 0
                               ? missing_ranks(context, topic)
                               : cards.error());
  }
  std::string all = join_cards(*cards);
  if (auto done = context.store->set(card_key(context, topic, -1), all); !done) {
    return std::unexpected(wrap(Errc::store, exchanging(context, topic), done.error()));
  }
  return all;
}

std::string read_line(const char* path) {
  const UniqueFd fd(::open(path, O_RDONLY | O_CLOEXEC));
  std::array<char, 128> buffer{};
  const auto count = fd ? ::read(fd.get(), buffer.data(), buffer.size()) : -1;
  std::string text(buffer.data(), static_cast<std::size_t>(std::max<ssize_t>(count, 0)));
  return text.substr(0, text.find('\n'));
}

}  // namespace

Duration left_until(TimePoint deadline) {
  return std::max<Duration>(deadline - steady_now(), std::chrono::milliseconds(1));
}

Result<std::vector<std::string>> await_keys(const BootstrapContext& context,
                                            const std::vector<std::string>& keys,
                                            std::string_view doing) {
  StartWatch* const watch = context.watch;
  while (true) {
    const Duration left = left_until(context.deadline);
    auto values =
        context.store->multi_get(keys, watch != nullptr ? std::min(watch->slice(), left) : left);
    if (values) {
      return std::move(*values);
    }
    const bool is_late = values.error().code == muster::Errc::timed_out;
    auto seen = watch == nullptr ? std::nullopt : is_late ? watch->look() : watch->reason();
    if (seen && is_late) {
      // The value may have been written before the failure. It is more useful than the error, so
      // check again.
      values = context.store->multi_get(keys, std::chrono::milliseconds(1));
    }
    if (values) {
      return std::move(*values);
    }
    if (seen) {
      return std::unexpected(std::move(*seen));
    }
    if (!is_late) {
      return std::unexpected(wrap(Errc::store, doing, values.error()));
    }
    if (steady_now() >= context.deadline) {
      return std::unexpected(wrap(Errc::timeout, doing, values.error()));
    }
  }
}

Result<std::vector<std::string>> exchange_cards(const BootstrapContext& context,
                                                std::string_view topic,
                                                const std::string& card) {
  const auto set = context.store->set(card_key(context, topic, context.rank), card);
  if (!set) {
    return std::unexpected(wrap(Errc::store, exchanging(context, topic), set.error()));
  }
  if (context.rank == 0) {
    const auto all = gather_cards(context, topic);
    return all ? split_cards(*all, context.size) : std::unexpected(all.error());
  }
  const auto all = await_keys(context, {card_key(context, topic, -1)}, exchanging(context, topic));
  if (!all) {
    return std::unexpected(all.error().code == Errc::timeout && all.error().rank < 0
                               ? missing_ranks(context, topic)
                               : all.error());
  }
  return split_cards((*all)[0], context.size);
}

std::string host_word() {
  struct stat network {};

  const bool known = ::stat("/proc/self/ns/net", &network) == 0;
  return fmt::format("{}/{}/{}",
                     read_line("/proc/sys/kernel/random/boot_id"),
                     known ? network.st_ino : 0,
                     ::geteuid());
}

std::string random_word() {
  constexpr std::size_t kBytes = 16;
  return random_hex(kBytes);
}

}  // namespace muster::collective
