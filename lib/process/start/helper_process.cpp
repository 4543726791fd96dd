// SPDX-License-Identifier: Apache-2.0
#include "process/start/helper_process.hpp"

#include "base/fd.hpp"
#include "process/start/inherited_state.hpp"
#include "process/start/spawn.hpp"

#include <asio/buffer.hpp>
#include <asio/io_context.hpp>
#include <asio/posix/stream_descriptor.hpp>
#include <asio/steady_timer.hpp>

#include <array>
#include <cerrno>
#include <csignal>
#include <utility>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace muster {
namespace {

constexpr std::size_t kHelperPieceBytes = std::size_t{64} * 1024;

// The input is kept in memory, so that the program can read at its own pace and no writer blocks.
Result<UniqueFd> open_input(const std::string& text) {
  if (text.empty()) {
    UniqueFd null(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    return null ? Result<UniqueFd>(std::move(null))
                : std::unexpected(system_error("cannot open /dev/null", errno));
  }
  UniqueFd memory(::memfd_create("muster input", MFD_CLOEXEC));
  if (!memory ||
      ::pwrite(memory.get(), text.data(), text.size(), 0) != static_cast<ssize_t>(text.size())) {
    return std::unexpected(system_error("cannot store a program's input", errno));
  }
  return memory;
}

}  // namespace

struct HelperProcess::Impl : std::enable_shared_from_this<Impl> {
  explicit Impl(asio::io_context& loop) : output(loop), timer(loop) {}

  asio::posix::stream_descriptor output;
  asio::steady_timer timer;
  UniqueFd process;  // a pidfd, because the runner may reap the process and the pid may be reused
  pid_t pid = 0;
  Done done;
  std::size_t bytes_max = 0;
  std::string text;
  std::array<char, kHelperPieceBytes> piece{};

  void kill() const {
    if (process) {
      ::syscall(SYS_pidfd_send_signal, process.get(), SIGKILL, nullptr, 0U);
    }
  }

  // Also kills the program's children. Its pid, and thus its group, cannot be reused while the
  // program exists.
  void kill_group() const {
    if (process && ::syscall(SYS_pidfd_send_signal, process.get(), SIGKILL, nullptr, 0U) == 0) {
      ::kill(-pid, SIGKILL);
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

  // The runner may have reaped the program already, but its pid is not used again so soon.
  void await_exit() {
    output.async_wait(asio::posix::stream_descriptor::wait_read,
                      [self = shared_from_this()](std::error_code error) {
                        if (!error) {
                          ::kill(-self->pid, SIGKILL);
                          self->finish();
                        }
                      });
  }

  void limit(Duration timeout) {
    timer.expires_after(timeout);
    timer.async_wait([self = shared_from_this()](std::error_code error) {
      if (!error) {
        self->kill_group();
        self->finish();
      }
    });
  }
};

HelperProcess::HelperProcess(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}

HelperProcess::~HelperProcess() {
  impl_->done = nullptr;
  if (impl_->output.is_open()) {
    impl_->kill_group();
  }
  impl_->give_up();
}

pid_t HelperProcess::pid() const {
  return impl_->pid;
}

Result<std::unique_ptr<HelperProcess>> HelperProcess::start(asio::io_context& loop,
                                                            const HelperSpec& spec,
                                                            Done done) {
  auto pipe = make_pipe();
  const UniqueFd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
  const auto input = open_input(spec.input);
  if (!pipe || !null || !input) {
    return std::unexpected(!pipe   ? pipe.error()
                           : !null ? system_error("cannot open /dev/null", errno)
                                   : input.error());
  }
  ProcessSpec process;
  process.argv = spec.argv;
  process.environment = spec.environment;
  std::erase_if(process.environment, [](const auto& one) { return one.starts_with("RANK="); });
  const bool is_silent = spec.bytes_max == 0;
  const int out = is_silent ? null.get() : pipe->write.get();
  const ChildStreams streams{
      .in = input->get(), .out = out, .err = spec.with_errors ? out : null.get()};
  const auto pid = spawn_process(process, streams, inherited_state());
  MUSTER_RETURN_IF_ERROR(pid);
  auto impl = std::make_shared<Impl>(loop);
  impl->pid = *pid;
  impl->process = UniqueFd(static_cast<int>(::syscall(SYS_pidfd_open, *pid, 0U)));
  impl->done = std::move(done);
  impl->bytes_max = spec.bytes_max;
  UniqueFd watched = is_silent ? UniqueFd(::fcntl(impl->process.get(), F_DUPFD_CLOEXEC, 0))
                               : std::move(pipe->read);
  std::error_code error;
  impl->output.assign(watched.get(), error);
  if (error) {
    impl->kill();
    return std::unexpected(system_error("cannot watch a program", error.value()));
  }
  static_cast<void>(watched.release());
  is_silent ? impl->await_exit() : impl->read();
  impl->limit(spec.timeout);
  return std::unique_ptr<HelperProcess>(new HelperProcess(std::move(impl)));
}

}  // namespace muster
