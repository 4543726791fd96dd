// SPDX-License-Identifier: Apache-2.0
#include "process/output/console.hpp"

#include "base/clock.hpp"
#include "process/output/folded_sink.hpp"
#include "support/catch.hpp"

#include <cerrno>
#include <csignal>

#include <fcntl.h>
#include <unistd.h>

using namespace muster;
using namespace std::chrono_literals;

namespace {

// A pipe as a console, which a test reads when it chooses to.
struct Reader {
  PipeEnds pipe = *make_pipe();
  Poller poller = *Poller::open();
  int rooms = 0;
  ConsoleSink sink{pipe.write.get(), poller, [this] { ++rooms; }};

  Reader() { REQUIRE(set_nonblocking(pipe.read.get())); }

  // Everything that is in the pipe and in the queue.
  std::string read_all() {
    std::string out;
    std::string buffer(1 << 16, '\0');
    for (bool more = true; more;) {
      const auto count = ::read(pipe.read.get(), buffer.data(), buffer.size());
      out.append(buffer, 0, static_cast<std::size_t>(std::max<ssize_t>(count, 0)));
      poller.dispatch(0);
      more = count > 0;
    }
    return out;
  }

  // Takes as much as one write can put into the pipe, without the sink's knowledge.
  void read_some() {
    std::string buffer(1 << 16, '\0');
    REQUIRE(::read(pipe.read.get(), buffer.data(), buffer.size()) > 0);
  }

  // Writes workers' lines until there is no more room.
  void fill() {
    while (sink.has_room()) {
      sink.buffer().append(9'999, 'w').append("\n");
      sink.flush();
    }
  }
};

std::size_t count_of(const std::string& what, const std::string& text) {
  std::size_t count = 0;
  for (auto at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) {
    ++count;
  }
  return count;
}

}  // namespace

TEST_CASE("console: keeps messages behind a full queue, then drops and counts them") {
  Reader reader;
  reader.fill();
  constexpr int kMessages = 100;
  const std::string message = std::string(1'999, 'm') + "\n";
  for (int i = 0; i < kMessages; ++i) {
    reader.sink.say(message);
  }
  const auto shown = reader.read_all();
  const auto kept = count_of(message, shown);
  CHECK(kept >= 32);
  CHECK(kept < kMessages);
  CHECK(shown.find("muster: warning: this console was not read in time; dropped: " +
                   std::to_string(kMessages - kept) + " messages from muster\n") !=
        std::string::npos);
  CHECK(reader.rooms == 1);
  reader.sink.say("later\n");
  CHECK(reader.read_all() == "later\n");
}

TEST_CASE("console: workers' output continues if a message or held lines make room") {
  Reader reader;
  reader.fill();
  reader.read_some();
  SECTION("a message") {
    reader.sink.say("x\n");
  }
  SECTION("held lines") {
    FoldedSink fold(reader.poller, reader.sink, false);
    fold.open(0, 0, "[0]:");
    fold.show_all();
  }
  CHECK(reader.rooms == 1);
  CHECK(reader.sink.has_room());
}

TEST_CASE("console: held lines of workers come before a later message, and prompts continue") {
  Reader reader;
  FoldedSink fold(reader.poller, reader.sink, false);
  bool continues = false;
  for (const int rank : {0, 1}) {
    fold.open(rank, rank, std::to_string(rank) + ":");
  }
  fold.buffer().append("held\n");
  fold.take(0, continues);
  CHECK(reader.read_all().empty());
  reader.sink.say("muster: message\n");
  CHECK(reader.read_all() == "0:held\nmuster: message\n");
  for (const auto* text : {"name? ", "Bob\nnext\n"}) {
    fold.buffer().append(text);
    fold.take(0, continues);
  }
  CHECK(reader.read_all() == "0:name? Bob\n");
  fold.show_all();
  CHECK(reader.read_all() == "0:next\n");
}

TEST_CASE("console: prints a message longer than its share if there is room") {
  Reader reader;
  const auto much = std::string(100'000, 'r') + "\n";
  reader.sink.say(much);
  CHECK((reader.read_all() == much));
}

TEST_CASE("console: counts the workers' dropped output after the queued output") {
  Reader reader;
  reader.fill();
  reader.sink.note_unshown(1234);
  const auto shown = reader.read_all();
  CHECK(
      shown.ends_with("w\nmuster: warning: this console was not read in time; dropped: 1234 "
                      "bytes of the workers' output (log files are complete)\n"));
  reader.fill();
  CHECK(count_of("muster", reader.read_all()) == 0);  // reported once
}

TEST_CASE("console: calls log files complete only if they contain all dropped output") {
  Reader reader;
  reader.sink.note_unfiled();
  reader.fill();
  reader.sink.note_unshown(1234);
  CHECK(reader.read_all().ends_with("dropped: 1234 bytes of the workers' output\n"));
}

TEST_CASE("console: waits once for a blocked console, and again after it has accepted something") {
  Reader reader;
  reader.fill();
  ConsoleWait first{.left = 150ms};
  CHECK_FALSE(reader.sink.wait_for_room(first, true));
  CHECK(first.left <= 0ms);
  ConsoleWait second{.left = 1h};
  CHECK_FALSE(reader.sink.wait_for_room(second, true));
  CHECK(second.left == 1h);
  CHECK_FALSE(reader.read_all().empty());
  ConsoleWait third{.left = 1h};
  CHECK(reader.sink.wait_for_room(third, true));
}

TEST_CASE("console: one time limit covers all waits, and a signal ends it") {
  Reader reader;
  reader.fill();
  auto signal = *make_pipe();
  ConsoleWait wait{.left = 1h, .interrupt_fd = signal.read.get()};
  CHECK(::write(signal.write.get(), "x", 1) == 1);
  CHECK_FALSE(reader.sink.wait_for_room(wait, false));
  CHECK(wait.left <= 0ms);
}

TEST_CASE("console: at the end drops the queue, at a line boundary, in favour of the last lines") {
  Reader reader;
  reader.fill();
  reader.sink.say("own\n");
  const auto lost = reader.sink.give_up_queue();
  CHECK(lost.messages == 1);
  CHECK(lost.worker_bytes > 100'000);
  reader.sink.say("the last line\n");
  const auto shown = reader.read_all();
  CHECK(shown.ends_with("w\nthe last line\n"));
  CHECK((shown.size() - 14) % 10'000 == 0);
  CHECK_FALSE(reader.sink.give_up_queue().any());
}

TEST_CASE("console: counts output lost on a full disk by its source, and never closes a sink") {
  const UniqueFd full(::open("/dev/full", O_WRONLY | O_CLOEXEC));
  Poller poller = *Poller::open();
  ConsoleSink sink(full.get(), poller, [] {});
  sink.buffer() = "one\ntwo\n";
  sink.say("own\n");
  sink.buffer() = "thr";
  sink.flush();
  CHECK(sink.empty());
  const Refused lost = sink.refused();
  CHECK(lost.why == ENOSPC);
  CHECK(lost.lines == 2);
  CHECK(lost.bytes == 11);
  CHECK(lost.messages == 1);
  CHECK_FALSE(lost.is_loss());
  CHECK(lost.describe("standard output") ==
        "muster: warning: cannot write standard output: No space left on device; lost: 1 message "
        "from muster, 2 lines of the workers' output (log files are complete)\n");
  sink.note_unfiled();
  CHECK(sink.refused().is_loss());
}

TEST_CASE("console: a closed reader is not an error") {
  Reader reader;
  reader.pipe.read.reset();
  auto* const before = ::signal(SIGPIPE, SIG_IGN);
  reader.sink.buffer() = "one\n";
  reader.sink.flush();
  static_cast<void>(::signal(SIGPIPE, before));
  CHECK(reader.sink.refused().why == 0);
}
