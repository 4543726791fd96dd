// SPDX-License-Identifier: Apache-2.0
#include "fakes/cuda/ptx_parse.hpp"

#include "fakes/cuda/ptx_kernel.hpp"

#include <algorithm>
#include <charconv>

namespace muster::fake {
namespace {

bool whole_number(std::string_view text, unsigned& value) {
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  return code == std::errc() && end == text.data() + text.size();
}

// ".version 6.0", ".target sm_53", ".address_size 64".
bool head(WordReader& words, Program& program) {
  std::string_view version;
  std::string_view target;
  if (!words.need(".version") || !words.need(Word::Kind::number, version)) {
    return false;
  }
  unsigned minor = 0;
  const auto point = version.find('.');
  if (point == std::string_view::npos || !whole_number(version.substr(0, point), program.version) ||
      !whole_number(version.substr(point + 1), minor) || minor > 9) {
    return words.fail("a version is written as 6.0");
  }
  program.version = program.version * 10 + minor;
  if (!words.need(".target") || !words.need(Word::Kind::name, target)) {
    return false;
  }
  if (!target.starts_with("sm_") || !whole_number(target.substr(3), program.target)) {
    return words.fail("a target is written as sm_53");
  }
  return words.need(".address_size") && words.need("64");
}

bool kernels(WordReader& words, Program& program) {
  while (words.peek().kind != Word::Kind::end) {
    if (!words.need(".visible") || !words.need(".entry")) {
      return false;
    }
    KernelParser parser(words);
    if (!parser.parse()) {
      return false;
    }
    if (std::ranges::count(program.kernels, parser.kernel().name, &Kernel::name) > 0) {
      return words.fail("a kernel named " + parser.kernel().name + " is there already");
    }
    program.kernels.push_back(std::move(parser.kernel()));
  }
  return true;
}

}  // namespace

std::expected<Program, std::string> parse_ptx(std::string_view text) {
  WordReader words(text);
  Program program;
  if (!head(words, program) || !kernels(words, program)) {
    return std::unexpected(words.error());
  }
  return program;
}

}  // namespace muster::fake
