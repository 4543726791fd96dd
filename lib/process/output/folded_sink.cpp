// SPDX-License-Identifier: Apache-2.0
#include "process/output/folded_sink.hpp"

#include "base/clock.hpp"

namespace muster {

FoldedSink::FoldedSink(Poller& poller, ConsoleSink& sink, bool colours)
    : sink_(sink), folder_(colours), timer_(poller, *this, kFoldTime / 2) {
  sink_.set_before_message([this] { folder_.emit_all(sink_.buffer()); });
}

FoldedSink::~FoldedSink() {
  sink_.set_before_message([] {});
  timer_.run(false);
}

void FoldedSink::take(int local_rank, bool& continues) {
  const auto now = steady_now();
  std::string& out = sink_.buffer();
  for (std::string_view text = buffer_; !text.empty();) {
    const auto newline = text.find('\n');
    const auto length = newline == std::string_view::npos ? text.size() : newline + 1;
    if (continues || newline == std::string_view::npos) {
      pass_piece(local_rank, text.substr(0, length), continues);
    } else {
      folder_.add(local_rank, text.substr(0, newline), now, out);
    }
    text.remove_prefix(length);
  }
  buffer_.clear();
  folder_.emit_due(now, out);
  if (!folder_.empty()) {
    timer_.run(true);
  }
  if (!timer_.is_running()) {
    folder_.emit_all(out);  // no descriptor is available
  }
  sink_.flush();
}

// On a terminal, the text after a carriage return begins a new line with a label.
void FoldedSink::pass_piece(int local_rank, std::string_view piece, bool& continues) {
  folder_.pass(local_rank, piece, !continues, sink_.buffer());
  const bool returns = sink_.is_terminal() && piece.ends_with('\r');
  continues = !piece.ends_with('\n') && !returns;
}

void FoldedSink::show_all() {
  folder_.emit_all(sink_.buffer());
  sink_.on_ready();
}

void FoldedSink::on_ready() {
  static_cast<void>(timer_.take_tick());
  folder_.emit_due(steady_now(), sink_.buffer());
  sink_.on_ready();
  if (folder_.empty()) {
    timer_.run(false);
  }
}

}  // namespace muster
