// SPDX-License-Identifier: Apache-2.0
#include "collective/elastic/sync.hpp"

#include "collective/transport/gradient_support.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

namespace muster::collective::elastic {
namespace {

constexpr std::size_t kNumbers = sizeof(StateCard) / sizeof(std::uint64_t);

Result<std::vector<StateCard>> gather(const StateCard& mine, Communicator& communicator) {
  std::vector<StateCard> all(static_cast<std::size_t>(communicator.size()));
  auto gathered = communicator.gradient_support().gather_all(
      {&mine, kNumbers, DType::u64}, {all.data(), kNumbers * all.size(), DType::u64});
  MUSTER_RETURN_IF_ERROR(gathered);
  return all;
}

}  // namespace

Result<int> newest_rank(std::span<const StateCard> cards) {
  for (std::size_t rank = 1; rank < cards.size(); ++rank) {
    if (cards[rank].layout != cards[0].layout) {
      return std::unexpected(
          Error{.code = Errc::mismatch,
                .rank = static_cast<int>(rank),
                .text = fmt::format("cannot synchronize the state: rank {} has added different "
                                    "memory sizes than rank 0. All ranks must add the same sizes "
                                    "in the same order",
                                    rank)});
    }
  }
  const auto newest = std::ranges::max_element(cards, {}, &StateCard::commits);
  return static_cast<int>(newest - cards.begin());
}

Result<void> sync(State& state, Communicator& communicator) {
  const StateCard mine{state.counter() ? *state.counter() + 1 : 0, state.layout()};
  const auto cards = gather(mine, communicator);
  MUSTER_RETURN_IF_ERROR(cards);
  const auto root = newest_rank(*cards);
  MUSTER_RETURN_IF_ERROR(root);
  const bool is_root = *root == communicator.rank();
  const auto bytes = is_root ? state.last() : state.spare();
  auto sent = communicator.gradient_support().broadcast_from(
      *root, {bytes.data(), bytes.size(), DType::u8});
  MUSTER_RETURN_IF_ERROR(sent);
  if (!is_root) {
    state.adopt_spare();
  }
  const std::uint64_t commits = (*cards)[static_cast<std::size_t>(*root)].commits;
  state.count(std::max<std::uint64_t>(commits, 1) - 1);
  state.restore();
  return {};
}

}  // namespace muster::collective::elastic
