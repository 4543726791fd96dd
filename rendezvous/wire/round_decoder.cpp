// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/wire/round_decoder.hpp"

#include "base/bytes.hpp"
#include "base/fnv.hpp"
#include "rendezvous/wire/field_reader.hpp"
#include "rendezvous/wire/round_kinds.hpp"

#include <algorithm>
#include <array>
#include <utility>

namespace muster {
namespace {

using Decode = std::string (*)(std::string_view body, RoundMessage& message);

struct Kind {
  FrameKind frame;
  Decode decode = nullptr;
};

template <class Message>
std::string decode_one(std::string_view body, RoundMessage& message) {
  FieldReader reader(body);
  fields(reader, message.emplace<Message>());
  if (reader.ok() && reader.left() > 0) {
    return std::to_string(reader.left()) + " trailing bytes";
  }
  return reader.fault();
}

template <std::size_t... I>
constexpr auto all_kinds(std::index_sequence<I...>) {
  return std::array{Kind{kKindOf<std::variant_alternative_t<I, RoundMessage>>,
                         &decode_one<std::variant_alternative_t<I, RoundMessage>>}...};
}

constexpr auto kKinds = all_kinds(std::make_index_sequence<std::variant_size_v<RoundMessage>>());

const Kind* find_kind(std::uint8_t number) {
  const auto* const found =
      std::ranges::find(kKinds, number, [](const Kind& kind) { return kind.frame.number; });
  return found == kKinds.end() ? nullptr : found;
}

// The message is from a different version, so unknown reasons and additional fields are ignored.
void take_foreign_refuse(std::string_view body, RoundMessage& message) {
  FieldReader reader(body);
  std::uint8_t why = 0;
  reader.number(why);
  Refuse refuse{.why = Refusal::wrong_version, .text = {}};
  reader.text(refuse.text);
  message = std::move(refuse);
}

std::string unknown_version(std::uint16_t version) {
  return "it uses version " + std::to_string(version) +
         " of the node protocol, but this muster uses version " + std::to_string(kRoundVersion) +
         ": use the same muster on all nodes";
}

}  // namespace

RoundDecoder::Status RoundDecoder::next(std::string_view input,
                                        RoundMessage& message,
                                        std::size_t& consumed) {
  consumed = 0;
  if (!fault_.empty()) {
    return Status::broken;
  }
  if (!greeted()) {
    if (const Status status = take_preamble(input, consumed); status != Status::message) {
      return status;
    }
    input.remove_prefix(consumed);
  }
  if (version_ != kRoundVersion && side_ == Side::accepted) {
    return Status::foreign;
  }
  if (version_ == kRoundVersion && !introduced_) {
    return side_ == Side::accepted ? take_introduction(input, consumed)
                                   : take_reply(input, consumed);
  }
  return take_frame(input, message, consumed);
}

RoundDecoder::Status RoundDecoder::take_preamble(std::string_view input, std::size_t& consumed) {
  const std::size_t seen = std::min(input.size(), kRoundMagic.size());
  if (input.substr(0, seen) != kRoundMagic.substr(0, seen)) {
    return break_with("not a muster node: its first bytes are not the preamble");
  }
  if (input.size() < kPreambleBytes) {
    return Status::need_more;
  }
  version_ = load_int<std::uint16_t>(input.substr(kRoundMagic.size()));
  if (version_ == 0) {
    return break_with("not a muster node: protocol version 0");
  }
  consumed = kPreambleBytes;
  return Status::message;
}

RoundDecoder::Status RoundDecoder::take_introduction(std::string_view input,
                                                     std::size_t& consumed) {
  constexpr std::size_t kHead = sizeof(std::uint8_t) + sizeof(std::uint16_t);
  if (input.size() < kHead) {
    return Status::need_more;
  }
  const std::size_t size = kHead + load_int<std::uint16_t>(input.substr(1));
  if (size <= kHead + kMaxTextBytes && input.size() < size) {
    return Status::need_more;
  }
  FieldReader reader(input.substr(0, size));
  fields(reader, introduction_);
  if (!reader.ok()) {
    return break_with("its introduction: " + reader.fault());
  }
  introduced_ = true;
  consumed += size;
  return Status::introduced;
}

RoundDecoder::Status RoundDecoder::take_reply(std::string_view input, std::size_t& consumed) {
  if (input.size() < kReplyBytes) {
    return Status::need_more;
  }
  FieldReader reader(input);
  reader.choice(reply_, RoundReply::job_key);
  if (reader.ok() && reply_ == RoundReply::credential) {
    const std::string_view rest = input.substr(kReplyBytes);
    if (rest.size() < sizeof(std::uint16_t)) {
      return Status::need_more;
    }
    const std::size_t size = load_int<std::uint16_t>(rest);
    if (size <= kMaxTextBytes && rest.size() - sizeof(std::uint16_t) < size) {
      return Status::need_more;
    }
    reader.text(credential_);
  }
  if (!reader.ok()) {
    return break_with("its reply: " + reader.fault());
  }
  introduced_ = true;
  consumed += input.size() - reader.left();
  return Status::introduced;
}

// True while only a Refuse in plaintext is acceptable.
bool RoundDecoder::hears_only_refuse() const {
  return version_ != kRoundVersion || (side_ == Side::dialled && reply_ == RoundReply::refused);
}

RoundDecoder::Status RoundDecoder::take_frame(std::string_view input,
                                              RoundMessage& message,
                                              std::size_t& consumed) {
  if (input.size() < kFrameHeadBytes) {
    return Status::need_more;
  }
  const auto length = load_int<std::uint32_t>(input);
  const auto number = static_cast<std::uint8_t>(input[sizeof(length)]);
  if (const Status status = check_head(number, length); status != Status::message) {
    return status;
  }
  if (input.size() - kFrameHeadBytes < length) {
    return Status::need_more;
  }
  const std::string_view body = input.substr(kFrameHeadBytes, length);
  if (version_ != kRoundVersion) {
    take_foreign_refuse(body, message);
    consumed += kFrameHeadBytes + length;
    return Status::message;
  }
  const Kind* const kind = find_kind(number);
  std::string fault = kind->decode(body, message);
  if (!fault.empty()) {
    return break_with(std::string(kind->frame.name) + " message: " + std::move(fault));
  }
  said_hello_ = true;
  if (side_ == Side::dialled && std::holds_alternative<Welcome>(message)) {
    allow_lists();
  }
  consumed += kFrameHeadBytes + length;
  return Status::message;
}

// Called once the head is complete, so that no peer can make us wait for the body of an invalid
// frame.
RoundDecoder::Status RoundDecoder::check_head(std::uint8_t number, std::uint32_t length) {
  if (version_ != kRoundVersion && number != kKindOf<Refuse>.number) {
    return break_with(unknown_version(version_));
  }
  const Kind* const kind = find_kind(number);
  if (kind == nullptr) {
    return break_with("a message of unknown kind " + std::to_string(number));
  }
  if (hears_only_refuse() && number != kKindOf<Refuse>.number) {
    return break_with("it refused the connection, but then sent " + std::string(kind->frame.name));
  }
  if (side_ == Side::accepted && !said_hello_ && number != kKindOf<Hello>.number) {
    return break_with("its first message is " + std::string(kind->frame.name) + ", not Hello");
  }
  const std::uint32_t most = limit_of(kind->frame);
  if (length > most) {
    return break_with(std::string(kind->frame.name) + " message of " + std::to_string(length) +
                      " bytes; the limit is " + std::to_string(most));
  }
  return Status::message;
}

std::uint32_t RoundDecoder::limit_of(const FrameKind& kind) const {
  if (kind.max_body == kMaxListsBody) {
    return allowed_ == Allowed::lists ? lists_body_ : kMaxShortBody;
  }
  return allowed_ == Allowed::short_ones ? kMaxShortBody : kind.max_body;
}

RoundDecoder::Status RoundDecoder::break_with(std::string fault) {
  fault_ = std::move(fault);
  return Status::broken;
}

Result<Memory> decode_memory(std::string_view bytes) {
  const auto broken = [](std::string why) { return failure(Errc::protocol, std::move(why)); };
  if (bytes.size() < kMemoryHeadBytes || !bytes.starts_with(kMemoryMagic)) {
    return broken("is not a record of rounds");
  }
  bytes.remove_prefix(kMemoryMagic.size());
  if (load_int<std::uint16_t>(bytes) != kRoundVersion) {
    return broken("is from a different muster version");
  }
  bytes.remove_prefix(sizeof(kRoundVersion));
  const auto sum = load_int<std::uint64_t>(bytes);
  bytes.remove_prefix(sizeof(sum));
  Memory memory;
  FieldReader reader(bytes);
  fields(reader, memory);
  if (reader.ok() && reader.left() > 0) {
    reader.name(memory.job_key);
  }
  if (sum != fnv_1a(bytes) || !reader.ok() || reader.left() > 0) {
    return broken("is truncated or corrupt");
  }
  return memory;
}

}  // namespace muster
