// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/server/server_core.hpp"

#include "base/check.hpp"

#include <algorithm>
#include <utility>

namespace muster {
namespace {

// Empty buffers with more capacity than this are freed.
constexpr std::size_t kKeptBufferBytes = 1024UL * 1024;

void release(std::string& text) {
  std::string().swap(text);
}

// Memory is counted by size, so a string's capacity must not be much larger than its size.
void trim(std::string& text) {
  constexpr std::size_t kSlack = 64UL * 1024;
  if (text.capacity() > 2 * text.size() + kSlack) [[unlikely]] {
    std::string(text).swap(text);
  }
}

}  // namespace

SessionId ServerCore::open() {
  if (free_.empty()) {
    free_.push_back(static_cast<SessionId>(sessions_.size()));
    sessions_.emplace_back();
  }
  const SessionId id = free_.back();
  free_.pop_back();
  MUSTER_CHECK(!sessions_[id].open);
  sessions_[id].open = true;
  note_step();
  return id;
}

void ServerCore::receive(SessionId id, std::string_view bytes) {
  MUSTER_CHECK(is_open(id));
  Session& session = sessions_[id];
  if (!session.closing.empty()) {
    return;
  }
  store_.begin_turn();
  lend_buffer(session);
  if (session.input.empty()) {
    // The usual case: complete requests, served from the caller's buffer without a copy.
    const std::size_t used = serve(id, bytes);
    if (used < bytes.size() && session.closing.empty()) {
      session.input.assign(bytes.substr(used));
    }
  } else {
    session.input.append(bytes);
    if (!session.unfinished) {
      serve_input(id);
    }
  }
  take_back_buffer(session);
  account(id);
  enforce_held_limit();
  note_step();
}

// `used` is the number of bytes at the start that are already served.
void ServerCore::serve_input(SessionId id, std::size_t used) {
  Session& session = sessions_[id];
  if (session.closing.empty()) {
    used += serve(id, std::string_view(session.input).substr(used));
  }
  if (used == session.input.size() || !session.closing.empty()) {
    release(session.input);
  } else if (used > 0) {
    session.input.erase(0, used);
    trim(session.input);
  }
}

// Serves complete requests until the input ends or the session has too many unsent replies. Returns
// the number of bytes consumed.
std::size_t ServerCore::serve(SessionId id, std::string_view input) {
  Session& session = sessions_[id];
  Request request;
  std::size_t used = 0;
  while (used < input.size() && !output_is_full(session)) {
    std::size_t consumed = 0;
    const auto status = session.decoder.next(input.substr(used), request, consumed);
    if (status == StoreDecoder::Status::need_more) {
      break;
    }
    if (status == StoreDecoder::Status::broken) {
      close(id, session.decoder.fault());
      break;
    }
    const Next next = answer(id, request, input.substr(used, consumed));
    if (next == Next::request) [[likely]] {
      used += consumed;
      continue;
    }
    return next == Next::pause_before ? used : pause(id, used + consumed, input);
  }
  return used;
}

// The rest of the input is served in a later turn.
std::size_t ServerCore::pause(SessionId id, std::size_t used, std::string_view input) {
  if (used < input.size()) {
    postpone({.session = id});
  }
  return used;
}

// `whole` contains all bytes of the request.
ServerCore::Next ServerCore::answer(SessionId id, Request& request, std::string_view whole) {
  Session& session = sessions_[id];
  const auto done = store_.handle(id, request, session.unsent, pushes_);
  if (!pushes_.empty()) {
    deliver_pushes();
  }
  if (!done) [[unlikely]] {
    close(id, done.error().message);
    return Next::pause_before;
  }
  if (*done == StoreCore::Served::wholly) [[likely]] {
    return Next::request;
  }
  if (*done == StoreCore::Served::last) {
    return Next::pause_after;
  }
  Unfinished rest{.session = id, .opcode = request.opcode, .count = request.count};
  if (request.count > 0) {
    rest.items_at = static_cast<std::size_t>(request.items.data() - whole.data());
  }
  // A QUEUE_PUSH is never served in parts, so a later turn decodes it again.
  if (request.opcode != Opcode::queue_push) {
    rest.end = whole.size();
  }
  postpone(rest);
  return Next::pause_before;
}

void ServerCore::postpone(const Unfinished& rest) {
  sessions_[rest.session].unfinished = true;
  unfinished_.push_back(rest);
}

void ServerCore::advance() {
  store_.begin_turn();
  store_.advance(pushes_);
  deliver_pushes();
  resume_one();
  enforce_held_limit();
  note_step();
}

void ServerCore::resume_one() {
  for (std::size_t i = 0; i < unfinished_.size(); ++i) {
    const Unfinished rest = unfinished_.front();
    unfinished_.pop_front();
    if (rest.opcode != Opcode::list_keys || !store_.must_wait_to_list(rest.session)) {
      resume(rest);
      return;
    }
    unfinished_.push_back(rest);
  }
}

void ServerCore::resume(const Unfinished& rest) {
  Session& session = sessions_[rest.session];
  session.unfinished = false;
  lend_buffer(session);
  const auto whole = std::string_view(session.input).substr(0, rest.end);
  Request request{.opcode = rest.opcode, .count = rest.count, .items = whole.substr(rest.items_at)};
  const bool is_done = rest.end == 0 || answer(rest.session, request, whole) != Next::pause_before;
  if (!session.unfinished) {
    deliver_late_pushes(rest.session);
    serve_input(rest.session, is_done ? rest.end : 0);
  }
  take_back_buffer(session);
  account(rest.session);
  touch(rest.session);
}

bool ServerCore::output_is_full(const Session& session) const {
  return session.unsent.size() - session.sent >= limits_.unsent_high_water;
}

void ServerCore::deliver_pushes() {
  for (const Push& push : pushes_) {
    MUSTER_CHECK(is_open(push.session));
    Session& session = sessions_[push.session];
    if (session.unfinished) [[unlikely]] {
      late_pushes_[push.session].append(push.bytes);
      session.late += push.bytes.size();
    } else {
      session.unsent.append(push.bytes);
    }
    account(push.session);
    touch(push.session);
  }
  pushes_.clear();
}

void ServerCore::deliver_late_pushes(SessionId id) {
  Session& session = sessions_[id];
  if (const auto late = late_pushes_.extract(id)) {
    session.late = 0;
    if (session.closing.empty()) {
      session.unsent.append(late.mapped());
    }
  }
}

void ServerCore::touch(SessionId id) {
  if (!std::exchange(sessions_[id].touched, true)) {
    touched_.push_back(id);
  }
}

std::vector<SessionId> ServerCore::take_touched() {
  std::erase_if(touched_, [this](SessionId id) {
    sessions_[id].touched = false;
    return !sessions_[id].open;
  });
  return std::exchange(touched_, {});
}

std::string_view ServerCore::output(SessionId id) const {
  const Session& session = sessions_[id];
  return std::string_view(session.unsent).substr(session.sent);
}

void ServerCore::sent(SessionId id, std::size_t count) {
  MUSTER_CHECK(is_open(id));
  Session& session = sessions_[id];
  MUSTER_CHECK(count <= session.unsent.size() - session.sent);
  session.sent += count;
  if (session.sent == session.unsent.size()) {
    session.unsent.clear();
    session.sent = 0;
  }
  if (!session.input.empty() && session.closing.empty() && !session.unfinished &&
      !output_is_full(session)) {
    // Drop the sent bytes first, or the buffer would grow while requests are held back.
    session.unsent.erase(0, std::exchange(session.sent, 0));
    store_.begin_turn();
    lend_buffer(session);
    serve_input(id);
  }
  take_back_buffer(session);
  trim(session.unsent);
  account(id);
  enforce_held_limit();
  note_step();
}

bool ServerCore::wants_input(SessionId id) const {
  const Session& session = sessions_[id];
  return session.closing.empty() && !session.unfinished && !output_is_full(session);
}

void ServerCore::forget(SessionId id) {
  MUSTER_CHECK(is_open(id));
  Session& session = sessions_[id];
  MUSTER_CHECK(held_ >= session.held);
  drop_unfinished(id);
  store_.begin_turn();
  store_.forget(id);
  held_ -= session.held;
  const bool touched = session.touched;
  // Assigning an empty string would keep the allocated memory.
  release(session.input);
  release(session.unsent);
  release(session.closing);
  session = Session{};
  session.touched = touched;
  free_.push_back(id);
  note_step();
}

// All sessions share one reply buffer. It is lent to the session being served and keeps its memory.
void ServerCore::lend_buffer(Session& session) {
  if (session.unsent.empty()) {
    session.unsent.swap(spare_);
  }
}

void ServerCore::take_back_buffer(Session& session) {
  if (session.unsent.empty() && session.unsent.capacity() > spare_.capacity() &&
      session.unsent.capacity() <= kKeptBufferBytes) {
    session.unsent.swap(spare_);
  }
  if (session.unsent.empty()) {
    release(session.unsent);
  }
}

// Updates the total of held bytes. Replies that are sent immediately are counted only briefly.
void ServerCore::account(SessionId id) {
  Session& session = sessions_[id];
  MUSTER_CHECK(held_ >= session.held);
  const std::uint64_t holds = session.input.size() + session.unsent.size() + session.late;
  held_ += holds;
  held_ -= std::exchange(session.held, holds);
}

// The limit is exceeded: close the session that holds the most bytes, so that others are not
// affected.
void ServerCore::enforce_held_limit() {
  while (held_ > limits_.held_bytes)
    [[unlikely]] {
      const auto most = std::ranges::max_element(sessions_, {}, &Session::held);
      MUSTER_CHECK(most != sessions_.end() && most->held > 0);
      const auto id = static_cast<SessionId>(most - sessions_.begin());
      close(id,
            "all sessions together hold " + std::to_string(held_) +
                " bytes of partial requests and unread replies, and this session holds the most; "
                "the limit is " +
                std::to_string(limits_.held_bytes));
      release(most->input);
      release(most->unsent);
      most->sent = 0;
      held_ -= std::exchange(most->held, 0);
      touch(id);
    }
}

void ServerCore::close(SessionId id, std::string reason) {
  drop_unfinished(id);
  sessions_[id].closing = std::move(reason);
}

void ServerCore::drop_unfinished(SessionId id) {
  if (std::exchange(sessions_[id].unfinished, false)) {
    std::erase_if(unfinished_, [id](const Unfinished& rest) { return rest.session == id; });
    late_pushes_.erase(id);
    sessions_[id].late = 0;
  }
}

}  // namespace muster
