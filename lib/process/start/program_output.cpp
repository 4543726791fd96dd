// SPDX-License-Identifier: Apache-2.0
#include "process/start/program_output.hpp"

#include "base/clock.hpp"
#include "base/fd.hpp"
#include "io/wait_ready.hpp"
#include "process/start/inherited_state.hpp"
#include "process/start/spawn.hpp"
#include "process/values/exit_status.hpp"

#include <array>
#include <cerrno>
#include <csignal>

#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

namespace muster {
namespace {

constexpr std::size_t kPieceBytes = std::size_t{16} * 1024;

struct Printed {
  std::string text;
  bool is_whole = false;
};

Printed read_until(int fd, TimePoint deadline, std::size_t bytes_max) {
  Printed out;
  std::array<char, kPieceBytes> piece;
  while (out.text.size() <= bytes_max && wait_ready(fd, POLLIN, deadline)) {
    const auto count = ::read(fd, piece.data(), piece.size());
    if (count > 0) {
      out.text.append(piece.data(), static_cast<std::size_t>(count));
    } else if (count == 0 || errno != EINTR) {
      out.is_whole = count == 0;
      break;
    }
  }
  return out;
}

bool ended_well(pid_t pid) {
  siginfo_t info{};
  while (::waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED) != 0 && errno == EINTR) {
  }
  return ExitStatus::from_wait(info.si_code, info.si_status).success();
}

}  // namespace

Result<std::string> program_output(const ProgramQuestion& question) {
  auto pipe = make_pipe();
  const UniqueFd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
  if (!pipe || !null) {
    return std::unexpected(!pipe ? pipe.error() : system_error("cannot open /dev/null", errno));
  }
  ProcessSpec spec;
  spec.argv = question.argv;
  spec.environment = question.environment;
  const auto pid =
      spawn_process(spec, {null.get(), pipe->write.get(), null.get()}, inherited_state());
  MUSTER_RETURN_IF_ERROR(pid);
  pipe->write.reset();
  Printed printed =
      read_until(pipe->read.get(), steady_now() + question.timeout, question.bytes_max);
  if (!printed.is_whole) {
    ::kill(*pid, SIGKILL);
  }
  const bool well = ended_well(*pid);
  if (!printed.is_whole) {
    return failure(Errc::timed_out, question.argv.front() + " does not respond");
  }
  if (!well) {
    return failure(Errc::not_possible, question.argv.front() + " failed");
  }
  return std::move(printed.text);
}

}  // namespace muster
