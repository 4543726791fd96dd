// SPDX-License-Identifier: Apache-2.0
// Any bytes, in any split, are decoded without a fault, and every split gives the same requests.
// The first byte of the input decides the split.
#include "base/check.hpp"
#include "rendezvous/wire/store_decoder.hpp"

#include <cstdint>
#include <string>
#include <string_view>

namespace muster {
namespace {

// All requests as one text, which ends with the error, if there was one.
std::string decode(std::string_view bytes, std::size_t piece) {
  StoreDecoder decoder;
  std::string out;
  std::string held;
  while (!bytes.empty()) {
    held.append(bytes.substr(0, piece));
    bytes.remove_prefix(std::min(piece, bytes.size()));
    while (true) {
      Request request;
      std::size_t consumed = 0;
      const auto status = decoder.next(held, request, consumed);
      if (status == StoreDecoder::Status::broken) {
        return out + decoder.fault();
      }
      if (status == StoreDecoder::Status::need_more) {
        break;
      }
      MUSTER_CHECK(consumed > 0 && consumed <= held.size());
      out += name_of(request.opcode);
      const RequestShape shape = shape_of(request.opcode);
      if (shape.counted) {
        std::string_view items = request.items;
        for (std::uint64_t i = 0; i < request.count * shape.strings; ++i) {
          out += take_item(items);
        }
        MUSTER_CHECK(items.empty());
      } else {
        out += std::string(request.key) + std::string(request.value) + std::string(request.desired);
        out += std::to_string(request.number);
      }
      held.erase(0, consumed);
    }
  }
  return out + std::to_string(held.size());
}

}  // namespace
}  // namespace muster

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) {
    return 0;
  }
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  MUSTER_CHECK(muster::decode(bytes, bytes.size() + 1) ==
               muster::decode(bytes, 1UL + data[0] % 17));
  return 0;
}
