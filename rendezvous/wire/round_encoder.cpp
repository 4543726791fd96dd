// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/wire/round_encoder.hpp"

#include "base/bytes.hpp"
#include "base/check.hpp"
#include "base/fnv.hpp"
#include "rendezvous/wire/round_fields.hpp"
#include "rendezvous/wire/round_kinds.hpp"
#include "rendezvous/wire/round_limits.hpp"

#include <algorithm>
#include <concepts>
#include <cstring>
#include <utility>

namespace muster {
namespace {

// Returns at most the first `most` bytes and does not split a UTF-8 character.
std::string_view cut(std::string_view text, std::size_t most) {
  constexpr unsigned kMarkMask = 0xC0U;
  constexpr unsigned kMark = 0x80U;
  if (text.size() <= most) {
    return text;
  }
  while (most > 0 && (static_cast<unsigned char>(text[most]) & kMarkMask) == kMark) {
    --most;
  }
  return text.substr(0, most);
}

std::size_t shared_beginning(std::string_view left, std::string_view right) {
  const auto [at, unused] = std::ranges::mismatch(left, right);
  return static_cast<std::size_t>(at - left.begin());
}

// The archive that writes the body of a frame.
class FieldWriter {
 public:
  static constexpr bool kWrites = true;

  explicit FieldWriter(std::string& out) : out_(out) {}

  void number(std::integral auto value) { append_int(out_, value); }

  void number(std::int32_t value, std::int32_t least, std::int32_t most) {
    append_int(out_, std::clamp(value, least, most));
  }

  void flag(bool value) { append_int(out_, static_cast<std::uint8_t>(value)); }

  template <class Enum>
  void choice(Enum value, Enum) {
    append_int(out_, static_cast<std::uint8_t>(value));
  }

  void duration(Duration value, Duration least = {}) {
    append_int(out_, std::int64_t{std::clamp(value, least, kMaxDuration).count()});
  }

  void name(std::string_view value, std::string_view before = {}) {
    prefixed(cut(value, kMaxNameBytes), before);
  }

  void address(std::string_view value, std::string_view before = {}) {
    prefixed(cut(value, kMaxAddressBytes), before);
  }

  void addresses(const std::vector<std::string>& values) {
    const std::size_t count = std::min(values.size(), kMaxHostAddresses);
    append_int(out_, static_cast<std::uint32_t>(count));
    for (std::size_t i = 0; i < count; ++i) {
      address(values[i]);
    }
  }

  void text(std::string_view value) {
    value = cut(value, kMaxTextBytes);
    append_int(out_, static_cast<std::uint16_t>(value.size()));
    out_ += value;
  }

  void blob(std::string_view value, std::size_t most = kMaxBlobBytes) {
    value = value.substr(0, most);
    append_int(out_, static_cast<std::uint32_t>(value.size()));
    out_ += value;
  }

  void texts(const std::vector<std::string>& values, std::size_t most) {
    const std::size_t count = std::min(values.size(), most);
    append_int(out_, static_cast<std::uint32_t>(count));
    for (std::size_t i = 0; i < count; ++i) {
      text(values[i]);
    }
  }

  template <class Item>
  void list(const std::vector<Item>& items, std::size_t most) {
    const std::size_t count = std::min(items.size(), most);
    append_int(out_, static_cast<std::uint32_t>(count));
    for (std::size_t i = 0; i < count; ++i) {
      fields(*this, items[i]);
    }
  }

  void ports(const std::vector<std::uint16_t>& ports) {
    const std::size_t count = std::min<std::size_t>(ports.size(), kMaxLeaderPorts);
    append_int(out_, static_cast<std::uint32_t>(count));
    for (std::size_t i = 0; i < count; ++i) {
      append_int(out_, ports[i]);
    }
  }

  void nodes(const std::vector<NodeInfo>& nodes) {
    too_long_ = too_long_ || nodes.size() > kMaxMembers;
    append_int(out_, static_cast<std::uint32_t>(nodes.size()));
    const NodeInfo none;
    const NodeInfo* before = &none;
    for (const NodeInfo& node : nodes) {
      fields(*this, node, *before);
      before = &node;
    }
  }

  void round(const RoundPtr& round) {
    MUSTER_CHECK(round != nullptr);
    fields(*this, *round);
  }

  [[nodiscard]] bool too_long() const { return too_long_; }

 private:
  void prefixed(std::string_view value, std::string_view before) {
    const std::size_t shared = shared_beginning(value, before);
    append_int(out_, static_cast<std::uint8_t>(shared));
    append_int(out_, static_cast<std::uint8_t>(value.size() - shared));
    out_ += value.substr(shared);
  }

  std::string& out_;
  bool too_long_ = false;
};

template <class Message>
Result<void> append_one(std::string& out, const Message& message) {
  constexpr FrameKind kKind = kKindOf<Message>;
  static_assert(kKind.number != 0, "this message needs a number in round_kinds.hpp");
  const std::size_t start = out.size();
  append_int(out, std::uint32_t{0});
  append_int(out, kKind.number);
  FieldWriter writer(out);
  fields(writer, message);
  const std::size_t body = out.size() - start - kFrameHeadBytes;
  if (writer.too_long() || body > kKind.max_body) {
    out.resize(start);
    return failure(Errc::protocol,
                   "cannot send a " + std::string(kKind.name) + " message of " +
                       std::to_string(body) + " bytes: the limits are " +
                       std::to_string(kKind.max_body) + " bytes and " +
                       std::to_string(kMaxMembers) + " nodes. Use fewer nodes");
  }
  const auto length = static_cast<std::uint32_t>(body);
  std::memcpy(out.data() + start, &length, sizeof(length));
  return {};
}

std::string make_preamble() {
  std::string out(kRoundMagic);
  append_int(out, kRoundVersion);
  return out;
}

}  // namespace

std::string_view round_preamble() {
  static const std::string kPreamble = make_preamble();
  return kPreamble;
}

std::string round_introduction(const Introduction& introduction) {
  std::string out(round_preamble());
  FieldWriter writer(out);
  fields(writer, introduction);
  return out;
}

std::string round_reply(RoundReply reply) {
  std::string out(round_preamble());
  append_int(out, static_cast<std::uint8_t>(reply));
  return out;
}

std::string round_credential(const std::string& credential) {
  std::string out = round_reply(RoundReply::credential);
  FieldWriter(out).text(credential);
  return out;
}

std::string refuse_introduction(const Refuse& refuse) {
  std::string out = round_reply(RoundReply::refused);
  MUSTER_CHECK(append_frame(out, refuse).has_value());
  return out;
}

Result<void> append_frame(std::string& out, const RoundMessage& message) {
  return std::visit([&out](const auto& one) { return append_one(out, one); }, message);
}

Result<SharedFrame> encode_shared(const RoundMessage& message) {
  std::string bytes;
  MUSTER_RETURN_IF_ERROR(append_frame(bytes, message));
  return std::make_shared<const std::string>(std::move(bytes));
}

std::string refuse_version(std::uint16_t theirs) {
  std::string out(round_preamble());
  const Refuse refuse{.why = Refusal::wrong_version,
                      .text = "version " + std::to_string(theirs) +
                              " of the node protocol is not supported here, only version " +
                              std::to_string(kRoundVersion) + ": use the same muster on all nodes"};
  MUSTER_CHECK(append_frame(out, refuse).has_value());
  return out;
}

Result<std::string> encode_memory(const Memory& memory) {
  std::string body;
  FieldWriter writer(body);
  fields(writer, memory);
  if (!memory.job_key.empty()) {
    writer.name(memory.job_key);
  }
  if (writer.too_long()) {
    return failure(Errc::protocol,
                   "cannot record more than " + std::to_string(kMaxMembers) + " nodes");
  }
  std::string out(kMemoryMagic);
  append_int(out, kRoundVersion);
  append_int(out, fnv_1a(body));
  return out + body;
}

}  // namespace muster
