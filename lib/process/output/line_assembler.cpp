// SPDX-License-Identifier: Apache-2.0
#include "process/output/line_assembler.hpp"

#include "base/check.hpp"
#include "process/values/process_spec.hpp"

#include <algorithm>
#include <cstring>

namespace muster {
namespace {

// True for text that a progress bar may print: no control bytes except tab, carriage return and
// escape.
bool is_text(std::string_view bytes) {
  return std::ranges::all_of(bytes, [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return (byte >= 0x20 && byte != 0x7f) || c == '\r' || c == '\t' || c == '\x1b';
  });
}

}  // namespace

void LineStyle::set_pid(int pid) {
  const std::string digits = std::to_string(pid);
  for (auto at = prefix.find(kPidMark); at != std::string::npos; at = prefix.find(kPidMark, at)) {
    prefix.replace(at, kPidMark.size(), digits);
  }
}

bool LineAssembler::wanted(std::string_view line) const {
  return style_.filters.empty() ||
         std::ranges::any_of(style_.filters, [&](const std::string& filter) {
           return line.find(filter) != std::string_view::npos;
         });
}

void LineAssembler::emit(std::string_view line, std::string& out) {
  if (wanted(line)) {
    out.append(std::exchange(begun_, false) ? "" : style_.prefix).append(line);
  }
}

void LineAssembler::prompt(std::string& out) {
  if (!partial_.empty() && style_.filters.empty()) {
    emit(std::exchange(partial_, {}), out);
    begun_ = true;
  }
}

// `lines` ends with a newline.
void LineAssembler::emit_all(std::string_view lines, std::string& out) {
  MUSTER_CHECK(lines.empty() || lines.ends_with('\n'));
  if (style_.prefix.empty() && style_.filters.empty()) {
    out.append(lines);
    begun_ = begun_ && lines.empty();
    return;
  }
  while (!lines.empty()) {
    const void* const newline = std::memchr(lines.data(), '\n', lines.size());
    const auto length =
        static_cast<std::size_t>(static_cast<const char*>(newline) - lines.data()) + 1;
    emit(lines.substr(0, length), out);
    lines.remove_prefix(length);
  }
}

void LineAssembler::keep(std::string_view rest, std::string& out) {
  MUSTER_CHECK(!rest.contains('\n'));
  partial_.append(rest);
  while (partial_.size() > kLineBytesMax) {
    emit(partial_.substr(0, kLineBytesMax) + "\n", out);
    partial_.erase(0, kLineBytesMax);
  }
}

void LineAssembler::feed(std::string_view bytes, std::string& out) {
  const auto last = bytes.rfind('\n');
  if (last == std::string_view::npos) {
    keep(bytes, out);
    return;
  }
  if (!partial_.empty()) {
    const auto first = bytes.find('\n');
    keep(bytes.substr(0, first), out);
    partial_ += '\n';
    emit(partial_, out);
    partial_.clear();
    emit_all(bytes.substr(first + 1, last - first), out);
  } else {
    emit_all(bytes.substr(0, last + 1), out);
  }
  keep(bytes.substr(last + 1), out);
}

void LineAssembler::progress(std::string& out) {
  const auto at = partial_.rfind('\r');
  if (at == std::string::npos || !style_.filters.empty()) {
    return;
  }
  if (style_.terminal) {
    emit(std::string_view(partial_).substr(0, at + 1), out);
    partial_.erase(0, at + 1);
    return;
  }
  // A carriage return at the end may be the first half of a CRLF.
  const auto text = std::string_view(partial_).substr(0, at);
  if (at + 1 == partial_.size() || !is_text(text)) {
    return;
  }
  if (!text.empty()) {
    emit(std::string(text) + "\n", out);
  }
  partial_.erase(0, at + 1);
}

void LineAssembler::finish(std::string& out) {
  if (!partial_.empty() || begun_) {
    partial_ += '\n';
    emit(partial_, out);
    partial_.clear();
  }
}

}  // namespace muster
