// SPDX-License-Identifier: Apache-2.0
#include "process/output/line_assembler.hpp"

#include "process/values/process_spec.hpp"
#include "support/catch.hpp"

using namespace muster;

namespace {

const std::string kMixed = std::string("one\ntwo \r\n\n\0bin\xff\n partial", 25);

std::string shown(const LineStyle& style, const std::vector<std::string>& pieces) {
  LineAssembler lines(style);
  std::string out;
  for (const auto& piece : pieces) {
    lines.feed(piece, out);
  }
  lines.finish(out);
  return out;
}

}  // namespace

TEST_CASE("line assembler: the same lines for any two splits") {
  for (const auto& prefix : {"", "[0]:"}) {
    const LineStyle style{.prefix = prefix, .filters = {}, .terminal = false};
    const auto whole = shown(style, {kMixed});
    for (std::size_t i = 0; i <= kMixed.size(); ++i) {
      for (std::size_t j = i; j <= kMixed.size(); ++j) {
        CHECK(shown(style, {kMixed.substr(0, i), kMixed.substr(i, j - i), kMixed.substr(j)}) ==
              whole);
      }
    }
  }
}

TEST_CASE("line assembler: changes no bytes except for the prefix and the last newline") {
  CHECK(shown({}, {kMixed}) == kMixed + "\n");
  CHECK(shown({.prefix = "p ", .filters = {}, .terminal = false}, {"a\n\nb"}) == "p a\np \np b\n");
  CHECK(shown({}, {""}).empty());
}

TEST_CASE("line assembler: replaces each pid mark in the prefix with the pid, once") {
  const std::string mark(kPidMark);
  LineAssembler lines({.prefix = mark + "/" + mark + ":", .filters = {}, .terminal = false});
  std::string out;
  lines.set_pid(4711);
  lines.set_pid(1);
  lines.feed("a\nb" + mark + "\n", out);
  CHECK(out == "4711/4711:a\n4711/4711:b" + mark + "\n");
}

TEST_CASE("line assembler: outputs only complete lines before the end") {
  LineAssembler lines({});
  std::string out;
  lines.feed("half", out);
  CHECK(out.empty());
  lines.feed(" line\nnext", out);
  CHECK(out == "half line\n");
}

TEST_CASE("line assembler: filters pass lines that contain any of their texts") {
  const LineStyle style{.prefix = "p:", .filters = {"loss", "acc"}, .terminal = false};
  CHECK(shown(style, {"a loss\nnothing\nac", "c 1\nlos\n", "last loss"}) ==
        "p:a loss\np:acc 1\np:last loss\n");
  CHECK(shown({.prefix = "", .filters = {""}, .terminal = false}, {"x\ny\n"}) == "x\ny\n");
}

TEST_CASE("line assembler: shows an overlong line in pieces") {
  const std::string endless(kLineBytesMax * 2 + 10, 'x');
  LineAssembler lines({.prefix = "p:", .filters = {}, .terminal = false});
  std::string out;
  for (std::size_t at = 0; at < endless.size(); at += 1000) {
    lines.feed(std::string_view(endless).substr(at, 1000), out);
  }
  lines.finish(out);
  const std::string piece = "p:" + std::string(kLineBytesMax, 'x') + "\n";
  CHECK(out == piece + piece + "p:xxxxxxxxxx\n");
}

TEST_CASE("line assembler: a progress bar moves on a terminal") {
  LineAssembler lines({.prefix = "p:", .filters = {}, .terminal = true});
  std::string out;
  lines.feed("10%\r20", out);
  lines.progress(out);
  CHECK(out == "p:10%\r");
  lines.feed("%\r30%\n", out);
  CHECK(out == "p:10%\rp:20%\r30%\n");
}

TEST_CASE("line assembler: without a terminal a progress bar becomes lines") {
  LineAssembler lines({});
  std::string out;
  lines.feed("\r10%", out);
  lines.progress(out);
  CHECK(out.empty());
  lines.feed("\r20%", out);
  lines.progress(out);
  CHECK(out == "10%\n");
  lines.feed("\r", out);
  lines.progress(out);  // may be the first half of a line break
  CHECK(out == "10%\n");
  lines.feed("\n", out);
  CHECK(out == "10%\n20%\r\n");
}

TEST_CASE("line assembler: a carriage return in binary output is not a progress bar") {
  LineAssembler lines({});
  std::string out;
  lines.feed(std::string("a\0b\rc", 5), out);
  lines.progress(out);
  CHECK(out.empty());
}

TEST_CASE("lines: shows a prompt early, without a second prefix for the rest of the line") {
  for (const std::string prefix : {"", "r0:"}) {
    LineAssembler lines({.prefix = prefix, .filters = {}});
    std::string out;
    lines.feed("one\n(Pdb) ", out);
    lines.prompt(out);
    CHECK(out == prefix + "one\n" + prefix + "(Pdb) ");
    lines.prompt(out);
    lines.feed("p 1", out);
    lines.prompt(out);
    lines.feed("\ntwo\n", out);
    CHECK(out == prefix + "one\n" + prefix + "(Pdb) p 1\n" + prefix + "two\n");
    lines.feed("end", out);
    lines.prompt(out);
    lines.finish(out);
    CHECK(out.ends_with(prefix + "end\n"));
    const auto whole = out;
    lines.finish(out);
    CHECK(out == whole);
  }
}
