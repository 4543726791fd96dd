// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/node/store_carrier.hpp"

#include "io/connect.hpp"
#include "io/socket_address.hpp"
#include "rendezvous/wire/round_encoder.hpp"

#include <asio/io_context.hpp>
#include <asio/posix/stream_descriptor.hpp>

#include <array>
#include <cerrno>
#include <utility>
#include <vector>

#include <sys/socket.h>

namespace muster {
namespace {

// The IDs of our own connections start here. No other IDs use this bit.
constexpr LinkId kFirstLink = 1ULL << 62U;

// While more bytes than this are queued for the other agent, we do not read from the local socket.
constexpr std::size_t kUnsentMost = 256UL * 1024;

// Maximum number of consecutive reads from one local socket.
constexpr int kReadsAtOnce = 4;

constexpr Duration kStoreConnectTimeout = std::chrono::seconds(20);

}  // namespace

// One carried connection: the local socket, and the link to the other agent.
struct StoreCarrier::Stream {
  Stream(asio::io_context& loop, LinkId id, int fd) : link(id), local(loop, fd) {}

  LinkId link;
  asio::posix::stream_descriptor local;
  std::string rest;  // bytes not yet accepted by the local side; reading pauses meanwhile
  bool open = true;
  bool connecting = false;     // the local side is connecting to the store
  std::optional<Hello> hello;  // to send once our link is open
  bool reading = false;
  bool writing = false;
  bool full = false;       // the link has too many unsent bytes
  bool said_all = false;   // the local side has shut down its half; the other agent was notified
  bool heard_all = false;  // the remote side has shut down its half; `rest` may be unwritten
  bool ended = false;      // the link has closed; `rest` may be unwritten
};

StoreCarrier::StoreCarrier(asio::io_context& loop, JobTerms terms, NodeInfo self, Turn turn)
    : loop_(loop),
      terms_(std::move(terms)),
      self_(std::move(self)),
      turn_(std::move(turn)),
      next_link_(kFirstLink) {}

void StoreCarrier::stop() {
  for (const auto& [link, stream] : streams_) {
    stream->open = false;
    stream->local.close();
  }
  streams_.clear();
}

void StoreCarrier::use(LinkSockets& sockets) {
  sockets_ = &sockets;
  sockets.set_drained(kUnsentMost / 2, [this](LinkId link) { drained(link); });
}

void StoreCarrier::set_store(std::optional<CarriedStore> store) {
  drop_all();
  store_ = std::move(store);
}

void StoreCarrier::drop_all() {
  turn_([this] {
    while (!streams_.empty()) {
      end(streams_.begin()->second);
    }
  });
}

// -- new streams ------------------------------------------------------------------------------

StoreCarrier::StreamPtr StoreCarrier::add(LinkId link, UniqueFd fd) {
  auto stream = std::make_shared<Stream>(loop_, link, fd.release());
  streams_.emplace(link, stream);
  return stream;
}

// The worker's data is sent right after the Hello, without waiting for a reply.
void StoreCarrier::carry(UniqueFd worker, const CarrierTarget& target) {
  const auto there = SocketAddress::parse(target.address, target.port);
  if (!there) {
    return;
  }
  const LinkId link = next_link_++;
  const StreamPtr stream = add(link, std::move(worker));
  Hello& hello = stream->hello.emplace();
  hello.purpose = Purpose::carry;
  hello.terms = terms_;
  hello.node = self_;
  hello.started = target.round;
  turn_([&] { sockets_->connect(link, {*there}, kStoreConnectTimeout); });
}

// No further checks are needed: lower layers decide which peers may connect, and only members know
// the round's ID.
void StoreCarrier::adopt(LinkId link, const Hello& hello) {
  if (hello.terms.job_id != terms_.job_id) {
    refuse(link, "the endpoint serves a different job");
    return;
  }
  if (!store_ || hello.started != store_->round) {
    refuse(link, "this node does not have the store of that round");
    return;
  }
  const auto there = SocketAddress::parse(store_->address, store_->port);
  Connecting connecting = there ? start_connect(*there) : Connecting{};
  if (!connecting.fd) {
    refuse(link, "the store is unreachable");
    return;
  }
  const StreamPtr stream = add(link, std::move(connecting.fd));
  stream->connecting = true;
  send(link, Welcome{.coordinator = hello.node, .lease = kMinLease});
  sockets_->allow_texts(link);
  await_output(stream);
}

void StoreCarrier::refuse(LinkId link, std::string text) {
  send(link, Refuse{Refusal::closed, std::move(text)});
  sockets_->close(link);
}

// -- the local side ---------------------------------------------------------------------------

void StoreCarrier::await_input(const StreamPtr& stream) {
  if (!stream->open || stream->full || stream->ended || stream->said_all ||
      std::exchange(stream->reading, true)) {
    return;
  }
  stream->local.async_wait(asio::posix::stream_descriptor::wait_read,
                           [this, stream](const asio::error_code& error) {
                             stream->reading = false;
                             if (!error && stream->open) {
                               turn_([&] { read_some(stream); });
                             }
                           });
}

void StoreCarrier::read_some(const StreamPtr& stream) {
  for (int i = 0; i < kReadsAtOnce && stream->open && !stream->full; ++i) {
    std::string bytes(kMaxBlobBytes, '\0');
    const auto count = ::recv(stream->local.native_handle(), bytes.data(), bytes.size(), 0);
    if (count < 0 && (errno == EAGAIN || errno == EINTR)) {
      break;
    }
    if (count == 0) {
      stream->said_all = true;
      send(stream->link, Carry{});
      end_if_over(stream);
      return;
    }
    if (count < 0) {
      end(stream);
      return;
    }
    bytes.resize(static_cast<std::size_t>(count));
    send(stream->link, Carry{std::move(bytes)});
    stream->full = sockets_->unsent(stream->link) > kUnsentMost;
    if (static_cast<std::size_t>(count) < kMaxBlobBytes) {
      break;
    }
  }
  await_input(stream);
}

void StoreCarrier::drained(LinkId link) {
  if (const auto found = streams_.find(link); found != streams_.end()) {
    found->second->full = false;
    await_input(found->second);
  }
}

void StoreCarrier::write(const StreamPtr& stream, std::string_view bytes) {
  stream->rest.append(bytes);
  if (stream->connecting) {
    sockets_->pause(stream->link, true);
  } else {
    write_rest(stream);
  }
}

// Called when the local side is writable.
void StoreCarrier::go_on(const StreamPtr& stream) {
  if (stream->connecting) {
    const int error = finish_connect(stream->local.native_handle());
    if (error == EINPROGRESS) {
      await_output(stream);
      return;
    }
    if (error != 0) {
      end(stream);
      return;
    }
    stream->connecting = false;
    await_input(stream);
  }
  if (!stream->rest.empty() || stream->ended || stream->heard_all) {
    write_rest(stream);
  }
}

void StoreCarrier::write_rest(const StreamPtr& stream) {
  std::string& rest = stream->rest;
  // After our half is shut down, even an empty send fails.
  const auto count =
      rest.empty() ? 0
                   : ::send(stream->local.native_handle(), rest.data(), rest.size(), MSG_NOSIGNAL);
  if (count < 0 && errno != EAGAIN && errno != EINTR) {
    end(stream);
    return;
  }
  rest.erase(0, count < 0 ? 0 : static_cast<std::size_t>(count));
  sockets_->pause(stream->link, !rest.empty());
  if (!rest.empty()) {
    await_output(stream);
  } else if (stream->ended) {
    end(stream);
  } else if (stream->heard_all) {
    ::shutdown(stream->local.native_handle(), SHUT_WR);
    end_if_over(stream);
  }
}

void StoreCarrier::end_if_over(const StreamPtr& stream) {
  if (stream->said_all && stream->heard_all && stream->rest.empty()) {
    end(stream);
  }
}

void StoreCarrier::await_output(const StreamPtr& stream) {
  if (std::exchange(stream->writing, true)) {
    return;
  }
  stream->local.async_wait(asio::posix::stream_descriptor::wait_write,
                           [this, stream](const asio::error_code& error) {
                             stream->writing = false;
                             if (!error && stream->open) {
                               turn_([&] { go_on(stream); });
                             }
                           });
}

void StoreCarrier::end(const StreamPtr& stream) {
  if (!std::exchange(stream->open, false)) {
    return;
  }
  const StreamPtr kept = stream;  // `stream` may be a reference into the map
  stream->local.close();
  sockets_->close(kept->link);
  streams_.erase(kept->link);
}

// -- the other agent --------------------------------------------------------------------------

void StoreCarrier::send(LinkId link, const RoundMessage& message) {
  if (auto frame = encode_shared(message)) {  // cannot fail for a blob within the limit
    sockets_->send(link, std::move(*frame));
  }
}

bool StoreCarrier::take(NodeEvent& event) {
  const auto* opened = std::get_if<LinkOpened>(&event);
  const auto* closed = std::get_if<LinkClosed>(&event);
  const auto* received = std::get_if<MessageReceived>(&event);
  const LinkId link = opened != nullptr     ? opened->link
                      : closed != nullptr   ? closed->link
                      : received != nullptr ? received->link
                                            : 0;
  const auto found = streams_.find(link);
  if (found == streams_.end()) {
    const auto* hello = received == nullptr ? nullptr : std::get_if<Hello>(received->message.get());
    if (hello != nullptr && hello->purpose == Purpose::carry) {
      adopt(link, *hello);
      event = LinkClosed{link, LinkEnd::closed, {}};
    }
    return link >= kFirstLink;
  }
  const StreamPtr stream = found->second;
  if (opened != nullptr) {
    send(link, *stream->hello);
    await_input(stream);
  } else if (closed != nullptr) {
    link_ended(stream);
  } else {
    hear(stream, *received->message);
  }
  return true;
}

void StoreCarrier::hear(const StreamPtr& stream, const RoundMessage& message) {
  if (const auto* carried = std::get_if<Carry>(&message)) {
    stream->heard_all = stream->heard_all || carried->bytes.empty();
    write(stream, carried->bytes);
  } else if (!std::holds_alternative<Welcome>(message)) {
    end(stream);  // refused; the worker sees the store close the connection
  }
}

// The data received so far is still delivered to the local side.
void StoreCarrier::link_ended(const StreamPtr& stream) {
  stream->ended = true;
  if (stream->rest.empty()) {
    end(stream);
  }
}

}  // namespace muster
