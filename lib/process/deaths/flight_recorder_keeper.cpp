// SPDX-License-Identifier: Apache-2.0
#include "process/deaths/flight_recorder_keeper.hpp"

#include "base/liveness_page.hpp"

#include <array>
#include <cerrno>
#include <string_view>
#include <utility>

#include <sys/socket.h>
#include <unistd.h>

namespace muster {
namespace {

constexpr std::size_t kMostGuests = 16;
constexpr int kKeeperBacklog = 128;

}  // namespace

FlightRecorderKeeper::FlightRecorderKeeper(Poller& poller, std::function<bool(pid_t)> is_worker)
    : poller_(poller), is_worker_(std::move(is_worker)) {
  UniqueFd socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  const UnixAddress address = flight_recorder_address(::getpid());
  if (socket && ::bind(socket.get(), address.raw(), address.size) == 0 &&
      ::listen(socket.get(), kKeeperBacklog) == 0 && poller_.watch_input(socket.get(), *this)) {
    asked_ = std::move(socket);
  }
}

FlightRecorderKeeper::~FlightRecorderKeeper() {
  poller_.forget(asked_.get());
  for (const UniqueFd& guest : guests_) {
    poller_.forget(guest.get());
  }
}

std::vector<int> FlightRecorderKeeper::descriptors() const {
  std::vector<int> out;
  for (const UniqueFd& one : kept_) {
    out.push_back(one.get());
  }
  return out;
}

void FlightRecorderKeeper::on_ready() {
  admit();
  std::erase_if(guests_, [this](const UniqueFd& guest) {
    const bool over = served(guest.get());
    if (over) {
      poller_.forget(guest.get());
    }
    return over;
  });
}

// A new client has often not sent anything yet, and the loop does not wait for its message.
void FlightRecorderKeeper::admit() {
  for (int i = 0; asked_ && i < kKeeperBacklog; ++i) {
    UniqueFd guest(::accept4(asked_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!guest) {
      if (errno != EAGAIN && errno != EINTR && errno != ECONNABORTED) {
        poller_.forget(asked_.get());  // out of descriptors: the loop would spin on accept()
        asked_.reset();
      }
      return;
    }
    const auto who = peer_of(guest.get());
    if (!who || !is_worker_(who->pid) || !poller_.watch_input(guest.get(), *this)) {
      continue;
    }
    if (guests_.size() == kMostGuests) {
      poller_.forget(guests_.front().get());
      guests_.erase(guests_.begin());
    }
    guests_.push_back(std::move(guest));
  }
}

bool FlightRecorderKeeper::served(int guest) {
  std::array<char, kFlightRecorderMessage.size()> word{};
  if (::recv(guest, word.data(), word.size(), MSG_PEEK) < 0 && errno == EAGAIN) {
    return false;
  }
  auto came = receive_with_fds(guest, word);
  if (came.size() == 1 && std::string_view(word.data(), word.size()) == kFlightRecorderMessage) {
    if (kept_.size() == kMaxFlightRecorders) {
      kept_.erase(kept_.begin() + 1);
    }
    kept_.push_back(std::move(came[0]));
  }
  return true;
}

}  // namespace muster
