// SPDX-License-Identifier: Apache-2.0
#include "process/helper_process.hpp"

#include "base/fd.hpp"
#include "process/inherited_state.hpp"
#include "process/spawn.hpp"

#include <asio/buffer.hpp>
#include <asio/io_context.hpp>
#include <asio/posix/stream_descriptor.hpp>
#include <asio/steady_timer.hpp>

#include <array>
#include <cerrno>
#include <csignal>
#include <utility>

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace muster {
namespace {

constexpr std::size_t kPieceBytes = std::size_t{64} * 1024;

}  // namespace

struct HelperProcess::Impl : std::enable_shared_from_this<Impl> {
  explicit Impl(asio::io_context& loop) : output(loop), timer(loop) {}

  asio::posix::stream_descriptor output;
  asio::steady_timer timer;
  UniqueFd process;  // a pidfd: the runner may have reaped it, and the number be another's
  Done done;
  std::size_t bytes_max = 0;
  std::string text;
  std::array<char, kPieceBytes> piece{};

  void kill() const {
    if (process) {
      ::syscall(SYS_pidfd_send_signal, process.get(), SIGKILL, nullptr, 0U);
    }
  }

  void finish() {
    timer.cancel();
    std::error_code ignored;
    output.close(ignored);
    if (Done call = std::exchange(done, nullptr)) {
      call(std::move(text));
    }
  }

  void give_up() {
    kill();
    finish();
  }

  void read() {
    output.async_read_some(asio::buffer(piece),
                           [self = shared_from_this()](std::error_code error, std::size_t count) {
                             self->text.append(self->piece.data(), count);
                             if (!error && self->text.size() <= self->bytes_max) {
                               self->read();
                             } else if (error != asio::error::operation_aborted) {
                               self->give_up();
                             }
                           });
  }

  void limit(Duration timeout) {
    timer.expires_after(timeout);
    timer.async_wait([self = shared_from_this()](std::error_code error) {
      if (!error) {
        self->give_up();
      }
    });
  }
};

HelperProcess::HelperProcess(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}

HelperProcess::~HelperProcess() {
  impl_->done = nullptr;
  impl_->give_up();
}

Result<std::unique_ptr<HelperProcess>> HelperProcess::start(asio::io_context& loop,
                                                            const HelperSpec& spec,
                                                            Done done) {
  auto pipe = make_pipe();
  const UniqueFd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
  if (!pipe || !null) {
    return std::unexpected(pipe ? system_error("opening /dev/null", errno) : pipe.error());
  }
  ProcessSpec process;
  process.argv = spec.argv;
  process.environment = spec.environment;
  const ChildStreams streams{.in = null.get(), .out = pipe->write.get(), .err = null.get()};
  const auto pid = spawn_process(process, streams, inherited_state());
  if (!pid) {
    return std::unexpected(pid.error());
  }
  auto impl = std::make_shared<Impl>(loop);
  impl->process = UniqueFd(static_cast<int>(::syscall(SYS_pidfd_open, *pid, 0U)));
  impl->done = std::move(done);
  impl->bytes_max = spec.bytes_max;
  impl->output.assign(pipe->read.release());
  impl->read();
  impl->limit(spec.timeout);
  return std::unique_ptr<HelperProcess>(new HelperProcess(std::move(impl)));
}

}  // namespace muster
