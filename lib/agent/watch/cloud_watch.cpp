// SPDX-License-Identifier: Apache-2.0
#include "agent/watch/cloud_watch.hpp"

#include "base/text.hpp"

#include <asio/io_context.hpp>
#include <asio/post.hpp>
#include <fmt/core.h>

#include <utility>

namespace muster {
namespace {

constexpr std::size_t kAnswerBytesMax = std::size_t{256} * 1024;

// curl prints the body of the answer, then this line.
CloudAnswer answer_of(const std::string& printed) {
  const auto end = printed.rfind('\n');
  if (end == std::string::npos) {
    return {};
  }
  const auto status = parse_int(printed.substr(end + 1));
  return {status ? static_cast<int>(*status) : 0, printed.substr(0, end)};
}

}  // namespace

CloudWatch::CloudWatch(asio::io_context& loop, const Environ& variables, EventStream& events)
    : loop_(loop), environ_(variables), events_(events), timer_(loop) {}

void CloudWatch::start(const std::string& source, Found found) {
  source_ = source;
  notice_.emplace(source);
  found_ = std::move(found);
  ask();
}

void CloudWatch::stop() {
  timer_.cancel();
  found_ = nullptr;
}

void CloudWatch::ask() {
  // The request may contain a secret, so it is not an argument.
  const HelperSpec spec{
      .argv = {"curl",
               "--disable",
               "--silent",
               "--write-out",
               "\n%{http_code}",
               "--max-time",
               fmt::format("{}", std::chrono::duration<double>(kCloudTimeout).count()),
               "--config",
               "-"},
      .environment = environ_.to_block(),
      .input = notice_->request(),
      .timeout = 2 * kCloudTimeout,
      .bytes_max = kAnswerBytesMax};
  auto started = HelperProcess::start(loop_, spec, [this](const std::string& printed) {
    // The object must not be destroyed by its own callback.
    asio::post(loop_, [this, printed] { take(printed); });
  });
  if (!started) {
    complain("cannot run curl: " + started.error().message);
    return;
  }
  curl_ = std::move(*started);
}

void CloudWatch::ask_later() {
  timer_.expires_after(kCloudInterval);
  timer_.async_wait([this](const asio::error_code& error) {
    if (!error && found_) {
      ask();
    }
  });
}

void CloudWatch::take(const std::string& printed) {
  curl_.reset();
  if (!found_) {
    return;
  }
  const bool was_ready = notice_->is_ready();
  const CloudVerdict verdict = notice_->take(answer_of(printed));
  if (verdict.is_preempted) {
    std::exchange(found_, nullptr)(verdict.unix_time);
    return;
  }
  if (!verdict.problem.empty()) {
    complain(verdict.problem + "; asking again every " + describe(kCloudInterval));
  }
  if (!was_ready && notice_->is_ready()) {
    ask();
  } else {
    ask_later();
  }
}

void CloudWatch::complain(const std::string& problem) {
  if (!std::exchange(has_complained_, true)) {
    events_.say(LogLevel::warning, fmt::format("--preempt-url={}: {}", source_, problem));
  }
}

}  // namespace muster
