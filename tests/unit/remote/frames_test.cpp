// SPDX-License-Identifier: Apache-2.0
#include "remote/frames.hpp"

#include "support/catch.hpp"

using namespace muster;

namespace {

const std::vector<Frame> kFrames{{RemoteFrameKind::hello, 0, "x"},
                                 {RemoteFrameKind::output, 65535, std::string(70000, 'y')},
                                 {RemoteFrameKind::beat, 7, ""}};

std::string bytes_of(const std::vector<Frame>& frames) {
  std::string out;
  for (const Frame& frame : frames) {
    append_frame(out, frame);
  }
  return out;
}

std::vector<Frame> read_in_pieces(std::string_view bytes, std::size_t size, bool greeted) {
  FrameReader reader(greeted);
  std::vector<Frame> out;
  while (!bytes.empty()) {
    reader.feed(bytes.substr(0, size));
    bytes.remove_prefix(std::min(size, bytes.size()));
    for (auto frame = reader.next(); frame.value(); frame = reader.next()) {
      out.push_back(**frame);
    }
  }
  return out;
}

}  // namespace

TEST_CASE("frames: decodes what was encoded, however it is split") {
  const std::string bytes = bytes_of(kFrames);
  for (const std::size_t size : {1U, 3U, 8U, 4096U, 1000000U}) {
    CHECK(read_in_pieces(bytes, size, true) == kFrames);
  }
}

TEST_CASE("frames: skips the output of a login script before the greeting") {
  const std::string bytes = "Welcome!\nmuster-remote/" + std::string(kGreeting) + bytes_of(kFrames);
  for (const std::size_t size : {1U, 5U, 1000000U}) {
    CHECK(read_in_pieces(bytes, size, false) == kFrames);
  }
}

TEST_CASE("frames: another program's output is an error, not an endless wait") {
  FrameReader endless(false);
  endless.feed(std::string(kNoiseBytesMax, 'x'));
  CHECK(endless.next().value() == std::nullopt);
  CHECK_FALSE(endless.greeted());
  endless.feed("x");
  CHECK_FALSE(endless.next());
  for (const std::string& bytes : {std::string("\0\0\0\0\0\0\0\0", 8),
                                   std::string("\x0b\0\0\0\0\0\0\0", 8),
                                   std::string("\1\0\0\0\xff\xff\xff\xff", 8)}) {
    FrameReader reader(true);
    reader.feed(bytes);
    CHECK_FALSE(reader.next());
  }
}

TEST_CASE("frames: decodes a list of texts, but not a truncated one") {
  for (const std::vector<std::string>& texts :
       {std::vector<std::string>{}, {""}, {"a", "", std::string("\0b", 2)}}) {
    CHECK(unpack(pack(texts)) == texts);
  }
  const std::string whole = pack({"abc", "de"});
  for (std::size_t size = 1; size < whole.size(); ++size) {
    const auto cut = unpack(std::string_view(whole).substr(0, size));
    CHECK((!cut || cut->size() < 2));
  }
  CHECK_FALSE(unpack("\xff\xff\xff\xff"));
}
