// SPDX-License-Identifier: Apache-2.0
#include "agent/workers/worker_channel.hpp"

#include "base/clock.hpp"
#include "base/printable.hpp"
#include "base/unix_socket.hpp"
#include "process/tree/descendants.hpp"
#include "rendezvous/server/descriptor_shortage.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <type_traits>
#include <utility>

#include <sys/socket.h>
#include <unistd.h>

namespace muster {
namespace {

constexpr int kChannelBacklog = 128;
constexpr int kAcceptsPerTurn = 16;
constexpr std::size_t kReadBytes = std::size_t{16} * 1024;
// The maximum number of reads per connection at the end of a round. They read about one full socket
// buffer.
constexpr int kDrainReads = 16;
constexpr std::size_t kRandomDigits = 16;
// So that the worker can report that its record does not fit.
constexpr std::size_t kRecordBytesMin = 4096;
// The pause after descriptors or memory are exhausted, so that other code can release some.
constexpr Duration kAcceptAgain = std::chrono::seconds(1);

std::optional<channel::Family> family_of(pid_t pid) {
  const auto row = proc_is_ours() ? read_process(pid) : std::nullopt;
  return row ? std::optional(channel::Family{row->parent, row->group}) : std::nullopt;
}

}  // namespace

struct WorkerChannel::Guest {
  explicit Guest(asio::io_context& loop) : socket(loop), timer(loop) {}

  asio::posix::stream_descriptor socket;
  asio::steady_timer timer;
  bool held = false;
  bool reading = false;
  bool writing = false;
};

WorkerChannel::WorkerChannel(asio::io_context& loop,
                             EventStream& events,
                             Duration grace,
                             std::size_t record_bytes)
    : loop_(loop),
      events_(events),
      grace_(grace),
      record_bytes_(record_bytes),
      listener_(loop),
      accept_later_(loop) {}

WorkerChannel::~WorkerChannel() = default;

Result<void> WorkerChannel::open(std::string_view random) {
  const std::string name = "muster-agent-" + std::string(random.substr(0, kRandomDigits));
  UniqueFd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  const UnixAddress address = abstract_address(name);
  if (!socket || ::bind(socket.get(), address.raw(), address.size) != 0 ||
      ::listen(socket.get(), kChannelBacklog) != 0) {
    return std::unexpected(system_error("cannot open the socket for workers", errno));
  }
  asio::error_code error;
  listener_.assign(socket.get(), error);
  if (error) {
    return failure(Errc::system, "cannot watch the socket for workers: " + error.message());
  }
  static_cast<void>(socket.release());
  name_ = name;
  listen();
  return {};
}

// -- connections ------------------------------------------------------------------------------

void WorkerChannel::listen() {
  listener_.async_wait(asio::posix::stream_descriptor::wait_read,
                       [this](const asio::error_code& error) {
                         if (!error) {
                           accept_some();
                         }
                       });
}

void WorkerChannel::accept_some() {
  for (int i = 0; i < kAcceptsPerTurn; ++i) {
    if (const auto until = accepts_.pass(steady_now())) {
      accept_after(*until);
      return;
    }
    if (!accept_one()) {
      break;
    }
  }
  if (is_short_) {
    accept_after(steady_now() + kAcceptAgain);
  } else {
    listen();
  }
}

void WorkerChannel::accept_after(TimePoint when) {
  accept_later_.expires_at(when);
  accept_later_.async_wait([this](const asio::error_code& error) {
    if (!error) {
      listen();
    }
  });
}

// False if no connection is pending.
bool WorkerChannel::accept_one() {
  UniqueFd fd(::accept4(listener_.native_handle(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  is_short_ = !fd && is_shortage(errno);
  if (!fd) {
    return errno == ECONNABORTED || errno == EINTR;
  }
  const auto who = speaker(fd.get());
  auto guest = std::make_unique<Guest>(loop_);
  asio::error_code error;
  guest->socket.assign(fd.get(), error);
  if (error) {
    return true;  // the kernel has no memory to watch the socket, so it was closed
  }
  static_cast<void>(fd.release());
  const channel::ConnectionId id = ++last_id_;
  guests_[id] = std::move(guest);
  channel::Effects effects;
  core_.opened(id, who, effects);
  perform(effects);
  read_later(id);
  return true;
}

// Identifies the peer by its kernel credentials. A process of another user is rejected, even if it
// is a descendant of a worker.
std::optional<int> WorkerChannel::speaker(int fd) const {
  const auto who = peer_of(fd);
  if (!who || who->uid != ::geteuid()) {
    return std::nullopt;
  }
  return core_.worker_of(who->pid, family_of);
}

WorkerChannel::Guest* WorkerChannel::find(channel::ConnectionId id) {
  const auto found = guests_.find(id);
  return found == guests_.end() ? nullptr : found->second.get();
}

void WorkerChannel::read_later(channel::ConnectionId id) {
  Guest* const guest = find(id);
  if (guest == nullptr || guest->held || std::exchange(guest->reading, true)) {
    return;
  }
  guest->socket.async_wait(asio::posix::stream_descriptor::wait_read,
                           [this, id](const asio::error_code& error) {
                             Guest* const ready = error ? nullptr : find(id);
                             if (ready != nullptr) {
                               ready->reading = false;
                               static_cast<void>(read_once(id));
                               read_later(id);
                             }
                           });
}

// False if there is no more to read, either for now or permanently.
bool WorkerChannel::read_once(channel::ConnectionId id) {
  Guest* const guest = find(id);
  if (guest == nullptr || guest->held) {
    return false;
  }
  std::array<char, kReadBytes> bytes{};
  const auto count = ::recv(guest->socket.native_handle(), bytes.data(), bytes.size(), 0);
  if (count < 0 && (errno == EAGAIN || errno == EINTR)) {
    return false;
  }
  channel::Effects effects;
  if (count <= 0) {
    guests_.erase(id);
    core_.closed(id, effects);
    perform(effects);
    return false;
  }
  core_.received(steady_now(), id, {bytes.data(), static_cast<std::size_t>(count)}, effects);
  perform(effects);
  return true;
}

void WorkerChannel::write(channel::ConnectionId id) {
  Guest* const guest = find(id);
  if (guest == nullptr || guest->writing) {
    return;
  }
  const std::string_view text = core_.unsent(id);
  const auto count =
      ::send(guest->socket.native_handle(), text.data(), text.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  core_.sent(id, count > 0 ? static_cast<std::size_t>(count) : 0);
  // A connection that the peer has closed is detected when we read from it.
  if (core_.unsent(id).empty() || (count < 0 && errno != EAGAIN)) {
    return;
  }
  guest->writing = true;
  guest->socket.async_wait(asio::posix::stream_descriptor::wait_write,
                           [this, id](const asio::error_code& error) {
                             Guest* const ready = error ? nullptr : find(id);
                             if (ready != nullptr) {
                               ready->writing = false;
                               write(id);
                             }
                           });
}

void WorkerChannel::end_round() {
  if (name_.empty()) {
    return;
  }
  core_.end_round();
  for (int i = 0; i < kChannelBacklog && accept_one(); ++i) {
  }
  for (const channel::ConnectionId id : connections()) {
    resume(id);
  }
  read_pending();
}

std::vector<channel::ConnectionId> WorkerChannel::connections() const {
  std::vector<channel::ConnectionId> ids;
  for (const auto& [id, guest] : guests_) {
    ids.push_back(id);
  }
  return ids;
}

void WorkerChannel::read_pending() {
  if (std::exchange(reads_pending_, true)) {
    return;  // a frame that was just read needs the same
  }
  for (const channel::ConnectionId id : connections()) {
    for (int i = 0; i < kDrainReads && read_once(id); ++i) {
    }
  }
  reads_pending_ = false;
  for (const int local_rank : std::exchange(left_ranks_, {})) {
    left_(local_rank);
  }
}

// -- effects of the core ----------------------------------------------------------------------

void WorkerChannel::perform(const channel::Effects& effects) {
  for (const channel::Effect& effect : effects) {
    std::visit(
        [this]<class Wanted>(const Wanted& wanted) {
          if constexpr (std::is_same_v<Wanted, channel::Greet>) {
            greet(wanted);
          } else if constexpr (std::is_same_v<Wanted, channel::Flush>) {
            write(wanted.connection);
          } else if constexpr (std::is_same_v<Wanted, channel::Hold>) {
            hold(wanted);
          } else if constexpr (std::is_same_v<Wanted, channel::Close>) {
            close(wanted);
          } else if constexpr (std::is_same_v<Wanted, channel::Warn>) {
            events_.say(LogLevel::warning, wanted.text);
          } else if constexpr (std::is_same_v<Wanted, channel::Resumed>) {
            resumed_(wanted.local_rank, wanted.epoch);
          } else if constexpr (std::is_same_v<Wanted, channel::HeardOfLoss>) {
            const auto& page = pages_.at(static_cast<std::size_t>(wanted.local_rank));
            heard_(wanted.local_rank, page ? page->longest_pause() : Duration{}, wanted.arrived);
          } else if constexpr (std::is_same_v<Wanted, channel::Left>) {
            left_ranks_.push_back(wanted.local_rank);
            read_pending();
          } else if constexpr (std::is_same_v<Wanted, channel::SavedStep>) {
            saved_(wanted.local_rank, wanted.step);
          } else if constexpr (std::is_same_v<Wanted, channel::Outlives>) {
            let_outlive(wanted);
          } else {
            static_assert(std::is_same_v<Wanted, channel::Said>);
            say(wanted);
          }
        },
        effect);
  }
}

// The reply always fits into the buffer of a new socket. If no page can be created (because of
// limits), the worker reports its steps in frames. The memory for a record is sparse, so it costs
// nothing until the worker writes to it.
void WorkerChannel::greet(const channel::Greet& wanted) {
  Guest* const guest = find(wanted.connection);
  auto& page = pages_.at(static_cast<std::size_t>(wanted.local_rank));
  if (!page) {
    if (auto made = channel::ProgressPage::make()) {
      page = std::move(*made);
      if (preempted_at_) {
        page->give_notice(*preempted_at_);
      }
    }
  }
  auto& record = records_.at(static_cast<std::size_t>(wanted.local_rank));
  if (!record && record_bytes_ > 0) {
    const std::size_t share = std::max(kRecordBytesMin, record_bytes_ / records_.size());
    record = channel::sealed_memory("muster-record", share).value_or(UniqueFd());
  }
  const int fd = guest->socket.native_handle();
  const std::array<int, 2> fds{page ? page->fd() : -1, record.get()};
  if (!page || !send_with_fds(fd, wanted.text, {fds.data(), record ? fds.size() : 1})) {
    static_cast<void>(
        ::send(fd, wanted.text.data(), wanted.text.size(), MSG_NOSIGNAL | MSG_DONTWAIT));
  }
}

void WorkerChannel::hold(const channel::Hold& wanted) {
  Guest* const guest = find(wanted.connection);
  if (guest == nullptr) {
    return;
  }
  guest->held = true;
  guest->timer.expires_at(wanted.until);
  guest->timer.async_wait([this, id = wanted.connection](const asio::error_code& error) {
    if (!error) {
      resume(id);
    }
  });
}

void WorkerChannel::resume(channel::ConnectionId id) {
  Guest* const guest = find(id);
  if (guest != nullptr && std::exchange(guest->held, false)) {
    guest->timer.cancel();
    channel::Effects effects;
    core_.resumed(steady_now(), id, effects);
    perform(effects);
    read_later(id);
  }
}

void WorkerChannel::close(const channel::Close& wanted) {
  if (Guest* const guest = find(wanted.connection)) {
    static_cast<void>(::send(guest->socket.native_handle(),
                             wanted.text.data(),
                             wanted.text.size(),
                             MSG_NOSIGNAL | MSG_DONTWAIT));
    guests_.erase(wanted.connection);
  }
}

void WorkerChannel::say(const channel::Said& said) {
  const int rank = said.rank;
  const int local_rank = said.local_rank;
  std::visit(
      [&]<class What>(const What& what) {
        if constexpr (std::is_same_v<What, channel::Healthy>) {
          events_.tell(event::WorkerHealthy{rank, local_rank});
        } else if constexpr (std::is_same_v<What, channel::Unhealthy>) {
          events_.tell(
              event::WorkerUnhealthy{rank, local_rank, printable(what.why, channel::kWhyBytesMax)});
        } else if constexpr (std::is_same_v<What, channel::WorkerEvent>) {
          events_.tell(event::WorkerToldEvent{rank, local_rank, what.data});
        } else {
          static_assert(std::is_same_v<What, channel::Ready>);
          events_.tell(event::WorkerReady{rank, local_rank});
        }
      },
      said.what);
}

// The kernel reports the process that has connected, so no process can ask for another one.
void WorkerChannel::let_outlive(const channel::Outlives& wanted) {
  Guest* const guest = find(wanted.connection);
  const auto who = guest != nullptr ? peer_of(guest->socket.native_handle()) : std::nullopt;
  if (who && !core_.is_worker(who->pid)) {
    outlives_(who->pid);
  }
}

// -- progress ---------------------------------------------------------------------------------

std::vector<channel::Progress> WorkerChannel::progress() {
  const TimePoint now = steady_now();
  for (std::size_t i = 0; i < pages_.size(); ++i) {
    const int local_rank = static_cast<int>(i);
    const auto told = pages_[i] ? pages_[i]->load(core_.started(local_rank), now) : std::nullopt;
    if (told) {
      core_.take_step(local_rank, *told);
    }
  }
  return core_.progress();
}

std::vector<std::optional<std::uint64_t>> WorkerChannel::steps() {
  std::vector<std::optional<std::uint64_t>> out;
  for (const channel::Progress& one : progress()) {
    out.push_back(one.step);
  }
  return out;
}

std::vector<std::vector<channel::NamedNumber>> WorkerChannel::numbers() const {
  std::vector<std::vector<channel::NamedNumber>> out;
  for (const auto& page : pages_) {
    out.push_back(page ? page->numbers() : std::vector<channel::NamedNumber>());
  }
  return out;
}

std::optional<std::uint64_t> WorkerChannel::latest_step() {
  std::optional<std::uint64_t> out;
  for (const auto& step : steps()) {
    out = std::max(out, step);
  }
  return out;
}

}  // namespace muster
