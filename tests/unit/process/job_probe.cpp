// SPDX-License-Identifier: Apache-2.0
#include "job_probe.hpp"

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

namespace muster::testing {
namespace {

constexpr auto kDeadline = std::chrono::seconds(30);

class Deadline {
 public:
  [[nodiscard]] int milliseconds_left() const {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        until_ - std::chrono::steady_clock::now());
    return static_cast<int>(std::max<long>(0, left.count()));
  }

 private:
  std::chrono::steady_clock::time_point until_ = std::chrono::steady_clock::now() + kDeadline;
};

// One read; false at the end of the file.
bool read_into(UniqueFd& fd, std::string& text) {
  std::array<char, 65536> buffer{};
  const auto count = ::read(fd.get(), buffer.data(), buffer.size());
  if (count > 0) {
    text.append(buffer.data(), static_cast<std::size_t>(count));
  } else {
    fd.reset();
  }
  return count > 0;
}

// Reads until `text` contains `wanted`.
bool reads(UniqueFd& fd, std::string& text, const std::string& wanted) {
  const Deadline deadline;
  while (text.find(wanted) == std::string::npos) {
    pollfd ready{.fd = fd.get(), .events = POLLIN, .revents = 0};
    if (!fd || ::poll(&ready, 1, deadline.milliseconds_left()) <= 0 || !read_into(fd, text)) {
      return false;
    }
  }
  return true;
}

}  // namespace

JobProbe::JobProbe(const Start& start) {
  auto out = *make_pipe();
  auto err = *make_pipe();
  pid_ = ::fork();
  if (pid_ == 0) {
    ::dup2(start.standard_output >= 0 ? start.standard_output : out.write.get(), 1);
    ::dup2(err.write.get(), 2);
    if (start.in_child) {
      start.in_child();
    }
    std::vector<char*> argv;
    for (const auto& word : start.argv) {
      argv.push_back(const_cast<char*>(word.c_str()));
    }
    argv.push_back(nullptr);
    ::execv(argv[0], argv.data());
    std::_Exit(127);
  }
  out_fd_ = std::move(out.read);
  err_fd_ = std::move(err.read);
}

JobProbe::~JobProbe() {
  if (!reaped_) {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
}

bool JobProbe::says(const std::string& text) {
  return reads(out_fd_, out_, text);
}

bool JobProbe::warns(const std::string& text) {
  return reads(err_fd_, err_, text);
}

pid_t JobProbe::number_after(const std::string& text) {
  if (!says(text) || !says("\n")) {
    return -1;
  }
  return std::atoi(out_.c_str() + out_.find(text) + text.size());
}

bool JobProbe::nothing_is_left() {
  const Deadline deadline;
  while (out_fd_ || err_fd_) {
    std::array<pollfd, 2> ready{
        {{.fd = out_fd_ ? out_fd_.get() : -1, .events = POLLIN, .revents = 0},
         {.fd = err_fd_ ? err_fd_.get() : -1, .events = POLLIN, .revents = 0}}};
    if (::poll(ready.data(), ready.size(), deadline.milliseconds_left()) <= 0) {
      return false;
    }
    if (ready[0].revents != 0) {
      read_into(out_fd_, out_);
    }
    if (ready[1].revents != 0) {
      read_into(err_fd_, err_);
    }
  }
  return true;
}

int JobProbe::exit_code() {
  if (!ends(pid_)) {
    return -1;
  }
  int status = 0;
  ::waitpid(pid_, &status, 0);
  reaped_ = true;
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

void JobProbe::signal(int signo) const {
  ::kill(pid_, signo);
}

void JobProbe::close_output() {
  out_fd_.reset();
}

TempDir::TempDir() {
  std::string path = std::filesystem::temp_directory_path() / "muster-test-XXXXXX";
  path_ = ::mkdtemp(path.data());
  ::chmod(path_.c_str(), 0777);  // other users take part in some tests
}

TempDir::~TempDir() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

void write_file(const std::string& path, const std::string& text, unsigned mode) {
  std::ofstream(path, std::ios::binary) << text;
  ::chmod(path.c_str(), mode);
}

bool ends(pid_t pid) {
  const UniqueFd handle(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  if (!handle) {
    return errno == ESRCH;
  }
  const Deadline deadline;
  pollfd ready{.fd = handle.get(), .events = POLLIN, .revents = 0};
  return ::poll(&ready, 1, deadline.milliseconds_left()) > 0;
}

std::vector<std::string> mini_job(const std::vector<std::string>& args) {
  std::vector<std::string> argv = {kMiniJob};
  argv.insert(argv.end(), args.begin(), args.end());
  return argv;
}

}  // namespace muster::testing
