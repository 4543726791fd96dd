// SPDX-License-Identifier: Apache-2.0
// The number, name and maximum body size of each frame between nodes (PROTOCOL.md, "Frames").
// Values.
#pragma once

#include "rendezvous/wire/round_limits.hpp"
#include "rendezvous/wire/round_messages.hpp"

#include <cstdint>
#include <string_view>

namespace muster {

// The wire number, display name and maximum body size. Numbers are never reused. Refuse has the
// same number and layout in every version.
struct FrameKind {
  std::uint8_t number = 0;
  std::string_view name;
  std::uint32_t max_body = kMaxShortBody;
};

template <class Message>
inline constexpr FrameKind kKindOf{};
template <>
inline constexpr FrameKind kKindOf<Hello>{1, "Hello"};
template <>
inline constexpr FrameKind kKindOf<Refuse>{2, "Refuse"};
template <>
inline constexpr FrameKind kKindOf<Welcome>{3, "Welcome"};
template <>
inline constexpr FrameKind kKindOf<Redirect>{4, "Redirect"};
template <>
inline constexpr FrameKind kKindOf<Claim>{5, "Claim"};
template <>
inline constexpr FrameKind kKindOf<Beat>{6, "Beat"};
template <>
inline constexpr FrameKind kKindOf<Pong>{7, "Pong"};
template <>
inline constexpr FrameKind kKindOf<Ready>{8, "Ready"};
template <>
inline constexpr FrameKind kKindOf<RollCall>{9, "RollCall", kMaxTextsBody};
template <>
inline constexpr FrameKind kKindOf<Propose>{10, "Propose", kMaxListsBody};
template <>
inline constexpr FrameKind kKindOf<Accept>{11, "Accept"};
template <>
inline constexpr FrameKind kKindOf<Start>{12, "Start"};
template <>
inline constexpr FrameKind kKindOf<Failed>{13, "Failed"};
template <>
inline constexpr FrameKind kKindOf<Details>{14, "Details", kMaxTextsBody};
template <>
inline constexpr FrameKind kKindOf<Regroup>{15, "Regroup"};
template <>
inline constexpr FrameKind kKindOf<Stopping>{16, "Stopping"};
template <>
inline constexpr FrameKind kKindOf<Finished>{17, "Finished"};
template <>
inline constexpr FrameKind kKindOf<Dismiss>{18, "Dismiss"};
template <>
inline constexpr FrameKind kKindOf<Leave>{19, "Leave"};
template <>
inline constexpr FrameKind kKindOf<Close>{20, "Close", kMaxTextsBody};
template <>
inline constexpr FrameKind kKindOf<ShowRounds>{21, "ShowRounds"};
template <>
inline constexpr FrameKind kKindOf<Rounds>{22, "Rounds", kMaxListsBody};
template <>
inline constexpr FrameKind kKindOf<Vouch>{23, "Vouch"};
template <>
inline constexpr FrameKind kKindOf<Vouched>{24, "Vouched"};
template <>
inline constexpr FrameKind kKindOf<Carry>{25, "Carry", kMaxTextsBody};
template <>
inline constexpr FrameKind kKindOf<Inquire>{26, "Inquire"};
template <>
inline constexpr FrameKind kKindOf<Look>{27, "Look"};
template <>
inline constexpr FrameKind kKindOf<Looked>{28, "Looked", kMaxTextsBody};
template <>
inline constexpr FrameKind kKindOf<Judged>{29, "Judged", kMaxTextsBody};
template <>
inline constexpr FrameKind kKindOf<Waited>{30, "Waited", kMaxTextsBody};
template <>
inline constexpr FrameKind kKindOf<Lacking>{31, "Lacking"};
template <>
inline constexpr FrameKind kKindOf<Mended>{32, "Mended"};
template <>
inline constexpr FrameKind kKindOf<Mend>{33, "Mend"};
template <>
inline constexpr FrameKind kKindOf<NoMend>{34, "NoMend"};

}  // namespace muster
