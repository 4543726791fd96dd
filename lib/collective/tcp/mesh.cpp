// SPDX-License-Identifier: Apache-2.0
#include "collective/tcp/mesh.hpp"

#include "base/bytes.hpp"
#include "base/clock.hpp"
#include "base/text.hpp"
#include "collective/bootstrap/start_watch.hpp"
#include "io/socket_address.hpp"
#include "io/wait_ready.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <span>
#include <utility>

#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

namespace muster::collective {
namespace {

// Maximum number of reads per rank in one poll, so that a rank that keeps sending does not starve
// the others.
constexpr int kMostReads = 16;
// How long to wait for data from a rank that has left. The rank may have completed its part. Its
// data then arrive on other connections, before their end of stream. If a forked child keeps those
// connections open, the end of stream never arrives.
constexpr Duration kLeftTimeout = std::chrono::seconds(1);

// Whether the failure is local and not the peer's fault.
bool is_our_own(int errno_value) {
  return errno_value == EMFILE || errno_value == ENFILE || errno_value == ENOBUFS ||
         errno_value == ENOMEM;
}

template <class Struct>
std::span<const char> bytes_of(const Struct& value) {
  return {reinterpret_cast<const char*>(&value), sizeof(value)};
}

}  // namespace

Mesh::Mesh(int rank, int size, PeerWatch& local)
    : rank_(rank), local_(local), poller_(::epoll_create1(EPOLL_CLOEXEC)) {
  peers_.resize(static_cast<std::size_t>(size));
}

Mesh::~Mesh() {
  const std::scoped_lock lock(mutex_);
  // Send a goodbye. Otherwise the other ranks would mistake the end of stream for our death. After
  // a failure they already have the reason.
  if (!fault_) {
    tell_all(Error{});
  }
}

Result<std::unique_ptr<Mesh>> Mesh::connect(const BootstrapContext& context,
                                            const Place& place,
                                            PeerWatch& local) {
  std::unique_ptr<Mesh> mesh(new Mesh(context.rank, context.size, local));
  if (auto formed = mesh->form(context, place); !formed) {
    // Report the reason before closing our connections. Closing the listener also closes the
    // connections in its backlog, so the listener is still open here.
    if (context.watch != nullptr) {
      context.watch->tell(formed.error());
    }
    mesh->report(start_failure(formed.error(), context.rank));
    return std::unexpected(std::move(formed.error()));
  }
  return mesh;
}

Result<void> Mesh::form(const BootstrapContext& context, const Place& place) {
  if (!poller_) {
    return std::unexpected(system_failure("cannot create an epoll instance", errno));
  }
  const auto key = LaneKey::random();
  MUSTER_RETURN_IF_ERROR(key);
  key_ = *key;
  // Listen before publishing the address, because a reader may connect immediately. In each pair,
  // the higher rank connects to the lower one, so ranks cannot wait for each other in a cycle.
  auto listening = listen_at(place.address, place.ports);
  MUSTER_RETURN_IF_ERROR(listening);
  listener_ = std::move(listening->fd);
  const auto cards = exchange_cards(
      context, "tcp", fmt::format("{} {} {}", place.address, listening->port, key_.text()));
  MUSTER_RETURN_IF_ERROR(cards);
  // If a rank does not accept connections yet, they wait in its backlog. So all ranks can connect
  // before they accept.
  auto formed = reach_lower(context, *cards, place.address);
  formed = formed ? accept_higher(context, listener_.get()) : formed;
  formed = formed ? await_welcomes(context) : formed;
  if (formed) {
    listener_.reset();
    const std::scoped_lock lock(mutex_);
    is_starting_ = false;
  }
  return formed;
}

Result<void> Mesh::reach_lower(const BootstrapContext& context,
                               const std::vector<std::string>& cards,
                               const std::string& ours) {
  for (int other = 0; other < rank_; ++other) {
    const auto fields = muster::split(cards[static_cast<std::size_t>(other)], ' ');
    const auto port = fields.size() == 3 ? parse_int(fields[1]) : std::nullopt;
    const auto key = port ? LaneKey::parse(fields[2]) : std::nullopt;
    if (!key) {
      return collective::failure(
          Errc::store, fmt::format("the address of rank {} in the store is malformed", other));
    }
    // Connect the control lane first: once it is up, the peer can detect our death.
    for (std::uint32_t lane = kLanes; lane-- > 0;) {
      auto fd = connect_until(
          with_our_interface(fields[0], ours), static_cast<std::uint16_t>(*port), context.deadline);
      const Hello hello{.key = *key, .rank = rank_, .lane = lane};
      if (!fd || !send_all(fd->get(), bytes_of(hello), context.deadline)) {
        return std::unexpected(
            not_reached(context,
                        other,
                        fd ? system_failure("cannot send the first message", errno) : fd.error()));
      }
      place(other, lane, std::move(*fd));
    }
  }
  return {};
}

// All ranks listen until every rank is connected, so a refused connection means that the peer has
// died, or has failed and reported why.
Error Mesh::not_reached(const BootstrapContext& context, int other, Error error) const {
  const int why = error.native;
  if (is_our_own(why)) {
    return error;
  }
  if (why == ECONNREFUSED || why == ECONNRESET || why == EPIPE) {
    if (auto seen = context.watch != nullptr ? context.watch->reason() : std::nullopt) {
      return *seen;
    }
    error.code = Errc::peer_failed;
  }
  error.rank = other;
  error.text = fmt::format("rank {} cannot reach rank {}: {}", rank_, other, error.text);
  return error;
}

Result<void> Mesh::accept_higher(const BootstrapContext& context, int listener) {
  const Duration slice =
      context.watch != nullptr ? context.watch->slice() : left_until(context.deadline);
  std::size_t wanted = static_cast<std::size_t>(context.size - 1 - rank_) * kLanes;
  HalfOpen arrivals(listener);
  // Wake up once per slice: a rank that dies before it connects makes no descriptor ready here.
  // Only the watch detects its death.
  while (wanted > 0) {
    const TimePoint next_look = std::min(context.deadline, steady_now() + slice);
    while (wanted > 0 && steady_now() < next_look) {
      auto greeting = arrivals.next(next_look);
      MUSTER_RETURN_IF_ERROR(greeting);
      wanted -= *greeting && take_connection(std::move(**greeting)) ? 1U : 0U;
    }
    if (auto error = wanted > 0 ? ended(context) : std::nullopt) {
      return std::unexpected(std::move(*error));
    }
  }
  return {};
}

// connect() succeeds as soon as the peer's kernel has queued the connection. If that rank then
// fails before accepting it, only the store contains the reason.
Result<void> Mesh::await_welcomes(const BootstrapContext& context) {
  const Duration slice =
      context.watch != nullptr ? context.watch->slice() : left_until(context.deadline);
  while (true) {
    if (auto error = ended(context)) {
      return std::unexpected(std::move(*error));
    }
    if (first_without_welcome() < 0) {
      return {};
    }
    // This only waits. ended() reads the messages at the start of the loop.
    epoll_event event{};
    static_cast<void>(::epoll_wait(
        poller_.get(), &event, 1, poll_timeout(std::min(context.deadline, steady_now() + slice))));
  }
}

int Mesh::first_without_welcome() const {
  const auto lower = std::span(peers_).first(static_cast<std::size_t>(rank_));
  const auto found =
      std::ranges::find_if(lower, [](const Peer& peer) { return !peer.messages.is_welcomed(); });
  return found == lower.end() ? -1 : static_cast<int>(found - lower.begin());
}

// The error that makes the startup fail, if any. Ignores failures in operations of ranks that have
// already started; our first operation will report those.
std::optional<Error> Mesh::ended(const BootstrapContext& context) const {
  auto error = context.watch != nullptr ? context.watch->look() : std::nullopt;
  auto fault = failure();
  if (!error && fault && fault->seq == 0) {
    error = std::move(fault);
  }
  if (!error && lost_) {
    error = context.watch != nullptr ? context.watch->reason() : std::nullopt;
    error = error ? error : lost_;
  }
  return error || steady_now() < context.deadline ? error : not_come(context);
}

void Mesh::place(int rank, std::uint32_t lane, UniqueFd fd) {
  const auto i = static_cast<std::size_t>(rank);
  // Only control lanes are polled here. Data on the other lanes is read by the operations, and
  // would keep the poller ready until then.
  if (lane == static_cast<std::uint32_t>(Lane::control)) {
    epoll_event event{.events = EPOLLIN, .data = {.u64 = i}};
    static_cast<void>(::epoll_ctl(poller_.get(), EPOLL_CTL_ADD, fd.get(), &event));
  }
  peers_[i].lanes[lane] = std::move(fd);
}

bool Mesh::take_connection(HalfOpen::Greeting greeting) {
  const Hello& hello = greeting.hello;
  // Any process that reaches the port can connect, but only ranks of the job know the key. An
  // existing lane is never replaced.
  if (hello.magic != Hello::kMagic || !hello.key.matches(key_) || hello.rank <= rank_ ||
      hello.rank >= size() || hello.lane >= kLanes ||
      peers_[static_cast<std::size_t>(hello.rank)].lanes[hello.lane]) {
    return false;
  }
  place(hello.rank, hello.lane, std::move(greeting.fd));
  welcome(static_cast<std::size_t>(hello.rank));
  return true;
}

// One attempt suffices, because the send buffer of a new connection has space.
void Mesh::welcome(std::size_t rank) const {
  const auto& lanes = peers_[rank].lanes;
  if (std::ranges::all_of(lanes, [](const UniqueFd& fd) { return bool(fd); })) {
    const std::string message = ControlMessages::encode_welcome();
    static_cast<void>(::send(lanes[static_cast<std::size_t>(Lane::control)].get(),
                             message.data(),
                             message.size(),
                             MSG_NOSIGNAL | MSG_DONTWAIT));
  }
}

Error Mesh::not_come(const BootstrapContext& context) const {
  Error error{.code = Errc::timeout};
  for (int other = rank_ + 1; other < context.size && error.rank < 0; ++other) {
    const auto& lanes = peers_[static_cast<std::size_t>(other)].lanes;
    error.rank =
        std::ranges::all_of(lanes, [](const UniqueFd& fd) { return bool(fd); }) ? -1 : other;
  }
  error.text = fmt::format("rank {} did not connect to rank {} in time", error.rank, rank_);
  if (error.rank < 0) {
    error.rank = first_without_welcome();
    error.text =
        fmt::format("rank {} did not accept rank {}'s connections in time", error.rank, rank_);
  }
  return error;
}

std::optional<Error> Mesh::failure() const {
  const std::scoped_lock lock(mutex_);
  if (!fault_) {
    // Check this host first, because shared memory reveals a death earlier than sockets do.
    if (const auto local = local_.failure()) {
      settle(*local);
    } else {
      listen_to_all();
      if (fault_) {
        local_.report(*fault_);  // report now: ranks on this host wait only in shared memory
      }
    }
  } else if (is_starting_) {
    listen_to_all();  // welcome messages may still arrive
  }
  return fault_;
}

void Mesh::report(const Error& error) {
  local_.report(error);
  const std::scoped_lock lock(mutex_);
  settle(error);
}

// The first reported reason becomes the reason on all ranks.
void Mesh::settle(const Error& error) const {
  if (!fault_) {
    fault_ = error;
    tell_all(error);
  }
}

// One attempt suffices: the send buffer has space, because the connection carries nothing else.
void Mesh::tell_all(const Error& error) const {
  const std::string message = ControlMessages::encode(error);
  for (const Peer& peer : peers_) {
    const int control = peer.lanes[static_cast<std::size_t>(Lane::control)].get();
    if (control >= 0) {
      static_cast<void>(
          ::send(control, message.data(), message.size(), MSG_NOSIGNAL | MSG_DONTWAIT));
    }
  }
}

void Mesh::listen_to_all() const {
  std::array<epoll_event, 16> events{};
  const int count = ::epoll_wait(poller_.get(), events.data(), static_cast<int>(events.size()), 0);
  for (int i = 0; i < count; ++i) {
    listen_to(events[static_cast<std::size_t>(i)].data.u64);
  }
}

void Mesh::listen_to(std::size_t rank) const {
  Peer& peer = peers_[rank];
  UniqueFd& control = peer.lanes[static_cast<std::size_t>(Lane::control)];
  std::array<char, 4096> buffer{};
  ssize_t count = 1;
  for (int reads = 0; reads < kMostReads && count > 0; ++reads) {
    // Non-blocking call. NOLINTNEXTLINE(clang-analyzer-unix.BlockInCriticalSection)
    count = ::recv(control.get(), buffer.data(), buffer.size(), MSG_DONTWAIT);
    peer.messages.take({buffer.data(), static_cast<std::size_t>(std::max<ssize_t>(count, 0))});
  }
  const int why = errno;
  // Process the data before the end of stream: a rank that leaves sends a goodbye and then closes.
  understand(rank);
  if (count == 0 || (count < 0 && why != EAGAIN && why != EINTR)) {
    peer.is_gone = true;
    // Otherwise every poll would report the end of stream again.
    static_cast<void>(::epoll_ctl(poller_.get(), EPOLL_CTL_DEL, control.get(), nullptr));
    // A lower rank that closes before its welcome has not accepted us. Record this even if an
    // operation has already failed, because ended() ignores failures in operations.
    const bool unwelcome =
        is_starting_ && std::cmp_less(rank, rank_) && !peer.messages.is_welcomed();
    if (unwelcome || (!peer.has_left && !fault_)) {
      lost(rank, count == 0 ? 0 : why);
    }
  }
}

// `why` is errno, or 0 at end of stream.
void Mesh::lost(std::size_t rank, int why) const {
  Error error{.code = Errc::peer_failed,
              .rank = static_cast<int>(rank),
              .text = fmt::format("rank {} has died, or its host cannot be reached{}",
                                  rank,
                                  why == 0 ? "" : ": " + errno_text(why))};
  if (const auto& told = peers_[rank].messages.first(); told && told->code != Errc::ok) {
    error = *told;
  }
  // During startup, the store may contain a better reason. ended() checks the store before lost_.
  if (!is_starting_) {
    settle(error);
  } else if (!lost_) {
    lost_ = error;
  }
}

void Mesh::understand(std::size_t rank) const {
  Peer& peer = peers_[rank];
  const auto& message = peer.messages.first();
  if (message && message->code != Errc::ok) {
    settle(*message);
  } else if (message && !peer.has_left) {
    peer.has_left = true;
    peer.left_at = steady_now();
  }
}

void Mesh::seen(int rank, const Request& called) {
  const std::scoped_lock lock(mutex_);
  peers_[static_cast<std::size_t>(rank)].last = called;
}

std::string Mesh::where(int rank, const Request& request) const {
  const std::scoped_lock lock(mutex_);
  const Request& last = peers_[static_cast<std::size_t>(rank)].last;
  if (last.seq == 0) {
    return "has not been seen in any operation";
  }
  const bool here = last.seq == request.seq && last.kind == request.kind;
  return (here ? "is in " : "was last seen in ") + last.describe();
}

std::optional<Error> Mesh::look(const Step& step, int missing) {
  return look(step, missing, kLeftTimeout);
}

std::optional<Error> Mesh::look(const Step& step, int missing, Duration timeout) {
  if (auto error = failure()) {
    local_.report(*error);
    return error;
  }
  if (missing < 0) {
    return std::nullopt;
  }
  bool left = false;
  {
    const std::scoped_lock lock(mutex_);
    const Peer& peer = peers_[static_cast<std::size_t>(missing)];
    left = peer.has_left && steady_now() >= peer.left_at + timeout;
  }
  Error error{.code = left ? Errc::peer_failed : Errc::timeout,
              .rank = missing,
              .seq = step.operation().seq};
  if (left) {
    error.text = fmt::format(
        "rank {} has left (exited, or closed its communicator) while rank {} waited for it in {}",
        missing,
        rank_,
        step.operation().describe());
  } else if (steady_now() >= step.deadline) {
    error.text = fmt::format("{} timed out on rank {}: rank {} is missing; it {}",
                             step.operation().describe(),
                             rank_,
                             missing,
                             where(missing, step.operation()));
  } else {
    return std::nullopt;
  }
  report(error);
  return failure();
}

Error Mesh::closed(const Step& step, int rank) {
  // The reason may arrive on the control lane a moment earlier or later.
  const TimePoint deadline = steady_now() + std::chrono::milliseconds(200);
  while (steady_now() < deadline) {
    // The end of stream comes after all data, so a goodbye counts at once.
    if (auto error = look(step, rank, Duration::zero())) {
      return *error;
    }
    epoll_event event{};
    static_cast<void>(::epoll_wait(poller_.get(), &event, 1, 10));
  }
  Error error{.code = Errc::peer_failed, .rank = rank, .seq = step.operation().seq};
  error.text = fmt::format("rank {} closed its connection to rank {} during {}",
                           rank,
                           rank_,
                           step.operation().describe());
  report(error);
  return failure().value_or(error);
}

}  // namespace muster::collective
