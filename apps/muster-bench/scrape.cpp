// SPDX-License-Identifier: Apache-2.0
#include "apps/muster-bench/scrape.hpp"

#include "apps/muster-bench/connection.hpp"
#include "base/clock.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <deque>
#include <optional>
#include <string_view>
#include <vector>

#include <errno.h>
#include <poll.h>
#include <sys/socket.h>
#include <time.h>

namespace muster::bench {
namespace {

constexpr std::string_view kFine = "HTTP/1.1 200 ";
constexpr std::string_view kLength = "\r\nContent-Length: ";
constexpr std::string_view kHeadEnd = "\r\n\r\n";
constexpr Duration kTimeout = std::chrono::seconds(20);

struct Client {
  UniqueFd fd;
  std::string input;
  std::deque<TimePoint> due;  // due times of unanswered requests
};

// The size of the first response, once its headers have arrived.
Result<std::optional<std::size_t>> size_of_answer(std::string_view input) {
  const auto end = input.find(kHeadEnd);
  if (end == std::string_view::npos) {
    return std::nullopt;
  }
  const auto head = input.substr(0, end);
  const auto length = head.find(kLength);
  if (!head.starts_with(kFine) || length == std::string_view::npos) {
    return failure(Errc::protocol,
                   "a scrape failed: " + std::string(head.substr(0, head.find('\r'))));
  }
  const auto digits = head.substr(length + kLength.size());
  std::size_t body = 0;
  std::from_chars(digits.data(), digits.data() + digits.size(), body);
  return end + kHeadEnd.size() + body;
}

class Scraper {
 public:
  explicit Scraper(const ScrapePlan& plan)
      : plan_(plan),
        request_("GET " + plan.path + " HTTP/1.1\r\nHost: localhost\r\n\r\n"),
        step_(std::chrono::duration_cast<Duration>(std::chrono::duration<double>(1 / plan.rate))),
        buffer_(std::size_t{64} * 1024) {}

  Result<Scrapes> run();

 private:
  [[nodiscard]] TimePoint next_due() const {
    return begin_ + static_cast<Duration::rep>(sent_) * step_;
  }

  Result<void> send_due(TimePoint now);
  [[nodiscard]] Result<void> wait(TimePoint now);
  Result<void> take(Client& client);
  [[nodiscard]] Scrapes conclude();

  ScrapePlan plan_;
  std::string request_;
  Duration step_;
  std::vector<char> buffer_;
  std::vector<Client> clients_;
  TimePoint begin_{};
  TimePoint last_answer_{};
  std::size_t sent_ = 0;
  std::vector<Duration> times_;
};

Result<void> Scraper::send_due(TimePoint now) {
  for (; sent_ < plan_.requests; ++sent_) {
    if (next_due() > now) {
      break;
    }
    Client& client = clients_[sent_ % clients_.size()];
    client.due.push_back(next_due());
    if (auto done = send_all(client.fd.get(), request_); !done) {
      return done;
    }
  }
  return {};
}

// Waits until the next request is due or a response arrives.
Result<void> Scraper::wait(TimePoint now) {
  std::vector<pollfd> polled;
  for (const Client& client : clients_) {
    polled.push_back({client.fd.get(), POLLIN, 0});
  }
  const TimePoint until = sent_ < plan_.requests ? next_due() : last_answer_ + kTimeout;
  const auto left = std::max(until - now, Duration::zero()).count();
  const timespec timeout{left / 1'000'000'000, left % 1'000'000'000};
  const int ready = ppoll(polled.data(), polled.size(), &timeout, nullptr);
  if (ready < 0 && errno != EINTR) {
    return std::unexpected(system_error("cannot wait for responses", errno));
  }
  if (ready == 0 && sent_ == plan_.requests) {
    return failure(Errc::timed_out, "a server did not answer scrapes for 20 s");
  }
  for (std::size_t i = 0; ready > 0 && i < polled.size(); ++i) {
    if (polled[i].revents != 0) {
      if (auto taken = take(clients_[i]); !taken) {
        return taken;
      }
    }
  }
  return {};
}

Result<void> Scraper::take(Client& client) {
  const auto got = recv(client.fd.get(), buffer_.data(), buffer_.size(), MSG_DONTWAIT);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) {
    return {};
  }
  if (got <= 0) {
    return failure(Errc::closed, "a server closed a connection during scrapes");
  }
  client.input.append(buffer_.data(), static_cast<std::size_t>(got));
  last_answer_ = steady_now();
  while (!client.due.empty()) {
    const auto size = size_of_answer(client.input);
    MUSTER_RETURN_IF_ERROR(size);
    if (!*size || client.input.size() < **size) {
      break;
    }
    client.input.erase(0, **size);
    times_.push_back(last_answer_ - client.due.front());
    client.due.pop_front();
  }
  return {};
}

Scrapes Scraper::conclude() {
  std::ranges::sort(times_);
  Scrapes out;
  out.answered = times_.size();
  out.seconds = std::chrono::duration<double>(last_answer_ - begin_).count();
  out.median = times_[times_.size() / 2];
  out.most_of_all = times_[times_.size() * 99 / 100];
  out.longest = times_.back();
  return out;
}

Result<Scrapes> Scraper::run() {
  for (std::size_t i = 0; i < plan_.connections; ++i) {
    auto fd = connect_to(plan_.port);
    MUSTER_RETURN_IF_ERROR(fd);
    clients_.push_back({std::move(*fd), {}, {}});
  }
  begin_ = steady_now();
  last_answer_ = begin_;
  while (times_.size() < plan_.requests) {
    const TimePoint now = steady_now();
    MUSTER_RETURN_IF_ERROR(send_due(now));
    MUSTER_RETURN_IF_ERROR(wait(now));
  }
  return conclude();
}

}  // namespace

Result<Scrapes> scrape(const ScrapePlan& plan) {
  if (plan.requests == 0 || plan.connections == 0 || !(plan.rate > 0)) {
    return failure(Errc::usage, "scrapes need requests, connections and a rate");
  }
  return Scraper(plan).run();
}

}  // namespace muster::bench
