// SPDX-License-Identifier: Apache-2.0
#include "agent/rounds/munge_service.hpp"

#include <asio/io_context.hpp>
#include <asio/post.hpp>

#include <utility>

#include <unistd.h>

namespace muster {
namespace {

// MUNGE's programs take a few milliseconds. A joining node has five seconds in total, including the
// time for these programs.
constexpr Duration kMungeTimeout = std::chrono::seconds(2);
constexpr std::size_t kMungesAtOnce = 4;
constexpr std::size_t kPrintedMost = std::size_t{16} * 1024;

}  // namespace

MungeService::MungeService(asio::io_context& loop, std::vector<std::string> environment)
    : loop_(loop), environment_(std::move(environment)) {}

void MungeService::prove(std::function<void(Result<void>)> done) {
  // Any text will do as the secret, because this only tests MUNGE.
  seal("0", [this, done = std::move(done)](Result<std::string> credential) {
    if (!credential) {
      done(std::unexpected(std::move(credential.error())));
      return;
    }
    open(*credential, [done](Result<std::string> secret) {
      done(secret ? Result<void>() : std::unexpected(std::move(secret.error())));
    });
  });
}

void MungeService::seal(const std::string& secret, Done done) {
  waiting_.push_back(
      {seal_call(secret, ::geteuid()),
       [done = std::move(done)](const std::string& printed) { done(take_credential(printed)); }});
  begin_some();
}

void MungeService::open(const std::string& credential, Done done) {
  waiting_.push_back({open_call(credential), [done = std::move(done)](const std::string& printed) {
                        done(take_secret(printed, ::geteuid()));
                      }});
  begin_some();
}

void MungeService::begin_some() {
  while (!waiting_.empty() && running_.size() < kMungesAtOnce) {
    Work work = std::move(waiting_.front());
    waiting_.pop_front();
    const std::uint64_t number = next_++;
    const HelperSpec spec{.argv = std::move(work.call.argv),
                          .environment = environment_,
                          .input = std::move(work.call.input),
                          .with_errors = true,
                          .timeout = kMungeTimeout,
                          .bytes_max = kPrintedMost};
    auto started = HelperProcess::start(
        loop_, spec, [this, number, taken = work.taken](const std::string& printed) {
          ended(number, taken, printed);
        });
    if (started) {
      running_.emplace(number, std::move(*started));
    } else {
      work.taken("Error: " + started.error().message);
    }
  }
}

void MungeService::ended(std::uint64_t number, const Taken& taken, const std::string& printed) {
  // The object must not be destroyed by its own callback.
  auto gone = running_.extract(number);
  asio::post(loop_, [process = std::shared_ptr<HelperProcess>(std::move(gone.mapped()))] {});
  const Taken kept = taken;  // `taken` may belong to the object that is destroyed
  kept(printed);
  begin_some();
}

}  // namespace muster
