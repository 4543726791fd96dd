// SPDX-License-Identifier: Apache-2.0
#include "apps/muster-bench/load.hpp"

#include "apps/muster-bench/connection.hpp"
#include "base/clock.hpp"

#include <array>
#include <chrono>
#include <vector>

#include <errno.h>
#include <sys/epoll.h>
#include <sys/socket.h>

namespace muster::bench {
namespace {

constexpr int kEvents = 256;
constexpr int kTimeoutMs = 5'000;

struct Client {
  UniqueFd fd;
  std::string batch;
  std::size_t answer_bytes = 0;  // per batch
  std::size_t missing = 0;
};

class Load {
 public:
  Load() : epoll_(epoll_create1(EPOLL_CLOEXEC)), buffer_(std::size_t{256} * 1024) {}

  Result<void> add_client(const LoadPlan& plan, std::size_t number);
  Result<double> run(const LoadPlan& plan);

 private:
  Result<void> start_batch(Client& client);
  Result<void> take_answers(Client& client, std::size_t depth);
  Result<void> step(std::size_t depth);

  UniqueFd epoll_;
  std::vector<Client> clients_;
  std::vector<char> buffer_;
  std::size_t answered_ = 0;
};

Result<void> Load::add_client(const LoadPlan& plan, std::size_t number) {
  const auto request = exchange(plan.protocol, plan.operation, number);
  auto fd = connect_to(plan.port);
  MUSTER_RETURN_IF_ERROR(fd);
  for (const auto& warm : {greeting(plan.protocol, request),
                           prepare(plan.protocol, plan.operation, number),
                           request}) {
    if (auto done = converse(fd->get(), warm); !done) {
      return done;
    }
  }
  if (auto made = set_nonblocking(fd->get()); !made) {
    return made;
  }
  epoll_event interest{};
  interest.events = EPOLLIN;
  interest.data.u64 = clients_.size();
  if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd->get(), &interest) != 0) {
    return std::unexpected(system_error("cannot watch a connection", errno));
  }
  std::string batch;
  for (std::size_t i = 0; i < plan.depth; ++i) {
    batch += request.request;
  }
  clients_.push_back({std::move(*fd), batch, request.reply.size() * plan.depth, 0});
  return {};
}

Result<void> Load::start_batch(Client& client) {
  client.missing = client.answer_bytes;
  const auto sent = send(client.fd.get(), client.batch.data(), client.batch.size(), MSG_NOSIGNAL);
  if (sent == static_cast<ssize_t>(client.batch.size())) {
    return {};
  }
  const auto rest = sent < 0 ? 0 : static_cast<std::size_t>(sent);
  return send_all(client.fd.get(), std::string_view(client.batch).substr(rest));
}

Result<void> Load::take_answers(Client& client, std::size_t depth) {
  const auto got = recv(client.fd.get(), buffer_.data(), buffer_.size(), 0);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) {
    return {};
  }
  if (got <= 0 || static_cast<std::size_t>(got) > client.missing) {
    return failure(Errc::closed, "a server closed a connection or sent too much under load");
  }
  client.missing -= static_cast<std::size_t>(got);
  if (client.missing > 0) {
    return {};
  }
  answered_ += depth;
  return start_batch(client);
}

Result<void> Load::step(std::size_t depth) {
  std::array<epoll_event, kEvents> events;
  const int ready = epoll_wait(epoll_.get(), events.data(), kEvents, kTimeoutMs);
  if (ready == 0) {
    return failure(Errc::timed_out, "a server stopped answering under load");
  }
  for (int i = 0; i < ready; ++i) {
    auto& client = clients_[events[static_cast<std::size_t>(i)].data.u64];
    if (auto taken = take_answers(client, depth); !taken) {
      return taken;
    }
  }
  return {};
}

Result<double> Load::run(const LoadPlan& plan) {
  for (auto& client : clients_) {
    MUSTER_RETURN_IF_ERROR(start_batch(client));
  }
  auto begin = steady_now();
  auto end = begin + plan.warm_up;
  std::size_t counted_from = 0;
  for (bool measuring = false;;) {
    MUSTER_RETURN_IF_ERROR(step(plan.depth));
    const auto now = steady_now();
    if (now < end) {
      continue;
    }
    if (measuring) {
      const std::chrono::duration<double> seconds = now - begin;
      return static_cast<double>(answered_ - counted_from) / seconds.count();
    }
    measuring = true;
    begin = now;
    end = now + plan.measured;
    counted_from = answered_;
  }
}

}  // namespace

Result<double> measure_rate(const LoadPlan& plan) {
  Load load;
  for (std::size_t number = 0; number < plan.clients; ++number) {
    MUSTER_RETURN_IF_ERROR(load.add_client(plan, number));
  }
  return load.run(plan);
}

}  // namespace muster::bench
