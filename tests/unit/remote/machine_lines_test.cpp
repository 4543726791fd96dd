// SPDX-License-Identifier: Apache-2.0
#include "remote/machine_lines.hpp"

#include "support/catch.hpp"

using namespace muster;
using namespace std::chrono_literals;

namespace {

constexpr TimePoint kStart{};

// Text without a line end, such as a prompt or dots, is shown within 0.2 s.
static_assert(kUnfinishedAfter <= 200ms);

struct Trial {
  // The resulting console output.
  std::string feed(std::size_t host, std::string_view bytes, int stream = 1) {
    std::string out;
    lines.feed(now, host, stream, bytes, out);
    return out;
  }

  std::string wait() {
    now = lines.next_deadline().value();
    std::string out;
    lines.tick(now, out);
    return out;
  }

  std::string finish(std::size_t host) {
    std::string out;
    lines.finish(host, out);
    return out;
  }

  RepeatedMessages messages;
  MachineLines lines{false, messages};
  TimePoint now = kStart;
};

}  // namespace

TEST_CASE("machine lines: lines from several machines stay whole") {
  Trial t;
  CHECK(t.feed(0, "ab").empty());
  CHECK(t.feed(1, "cd\ne") == "cd\n");
  CHECK(t.feed(0, "\n") == "ab\n");
  CHECK(t.finish(1) == "e\n");
  CHECK_FALSE(t.lines.next_deadline());
}

TEST_CASE("machine lines: shows dots after a pause, and continues") {
  Trial t;
  CHECK(t.feed(0, ".").empty());
  CHECK(t.lines.next_deadline() == kStart + kUnfinishedAfter);
  CHECK(t.wait() == ".");
  CHECK_FALSE(t.lines.next_deadline());
  t.now += 1s;
  CHECK(t.feed(0, ".").empty());
  CHECK(t.wait() == ".");
  CHECK(t.feed(0, "done\n") == "done\n");
  CHECK(t.finish(0).empty());
}

TEST_CASE("machine lines: text from another machine begins on a new line") {
  Trial t;
  CHECK(t.feed(0, "...").empty());
  CHECK(t.wait() == "...");
  CHECK(t.feed(1, "loss 1\n") == "\nloss 1\n");
  CHECK(t.feed(0, "..\n") == "..\n");
  CHECK(t.feed(0, "-").empty());
  CHECK(t.wait() == "-");
  CHECK(t.feed(1, "+").empty());
  CHECK(t.wait() == "\n+");
  CHECK(t.finish(0).empty());
  CHECK(t.finish(1) == "\n");
  CHECK(t.feed(2, "x").empty());
  CHECK(t.wait() == "x");
  std::string out;
  t.lines.break_line(out);
  CHECK(out == "\n");
}

TEST_CASE("machine lines: progress bars and messages from muster are shown as whole lines") {
  Trial t;
  CHECK(t.feed(0, "\r10%").empty());
  CHECK_FALSE(t.lines.next_deadline());
  CHECK(t.feed(0, "\r20%") == "10%\n");
  CHECK_FALSE(t.lines.next_deadline());
  CHECK(t.feed(0, "\nx") == "20%\n");
  CHECK(t.lines.next_deadline());
  CHECK(t.feed(1, "must", 2).empty());
  CHECK(t.wait() == "x");
  CHECK_FALSE(t.lines.next_deadline());
  CHECK(t.feed(1, "ard", 2).empty());
  CHECK(t.wait() == "\nmustard");
}
