// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/server/admission_queue.hpp"

#include "io/socket_address.hpp"
#include "rendezvous/server/descriptor_shortage.hpp"
#include "rendezvous/server/listener.hpp"

#include <algorithm>
#include <utility>

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

namespace muster {

namespace {

// True if the connection is still open. Otherwise the client may have disconnected after the query,
// and the answer may apply to the next owner of its port.
bool is_connected(int fd) {
  tcp_info info{};
  socklen_t size = sizeof(info);
  return ::getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) == 0 &&
         (info.tcpi_state == TCP_ESTABLISHED || info.tcpi_state == TCP_CLOSE_WAIT);
}

}  // namespace

std::optional<std::string> AdmissionQueue::note_refusal(int fd, const Error& why, TimePoint now) {
  return why.code == Errc::closed ? std::nullopt : notes_.refused(describe_peer(fd), why, now);
}

void AdmissionQueue::set_admission(Admission* admission, const AdmissionLimits& limits) {
  admission_ = admission;
  limits_ = limits;
}

void AdmissionQueue::ask(Ticket ticket, int fd, TimePoint now, AdmissionAnswer answer) {
  if (!asked_.empty() && asked_.size() >= std::min(limits_.sessions, quarter_of_descriptors())) {
    refuse_oldest();
  }
  asked_[ticket] = {now + limits_.answer, fd, std::move(answer)};
  const SocketAddress peer = peer_address(fd);
  const SocketAddress here = local_address(fd);
  admission_->admit({peer.host(), peer.port(), here.host(), here.port()},
                    [this, ticket, alive = std::weak_ptr(alive_)](Result<void> said) {
                      if (!alive.expired()) {
                        take_answer(ticket, std::move(said));
                      }
                    });
}

void AdmissionQueue::refuse_oldest() {
  take_answer(asked_.begin()->first,
              failure(Errc::not_possible, "too many connections are waiting for admission"));
}

// All connections have the same timeout, so the oldest connection's timeout expires first.
std::optional<TimePoint> AdmissionQueue::next_deadline() const {
  return asked_.empty() ? std::nullopt : std::optional(asked_.begin()->second.deadline);
}

void AdmissionQueue::expire(TimePoint now) {
  while (!asked_.empty() && asked_.begin()->second.deadline <= now) {
    take_answer(asked_.begin()->first, failure(Errc::timed_out, "the admission check timed out"));
  }
}

void AdmissionQueue::take_answer(Ticket ticket, Result<void> answer) {
  auto asked = asked_.extract(ticket);
  if (asked.empty()) {  // the connection was closed or refused in the meantime
    return;
  }
  if (answer && !is_connected(asked.mapped().fd)) {
    answer = failure(Errc::closed, "it closed before it was admitted");
  }
  asked.mapped().answer(std::move(answer));
}

}  // namespace muster
