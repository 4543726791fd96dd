// SPDX-License-Identifier: Apache-2.0
// The death notice that a worker holds for its launcher, with real processes. This process is the
// launcher, and it checks a child before it reaps it.
#include "base/fd.hpp"
#include "base/liveness_page.hpp"
#include "base/unix_socket.hpp"
#include "process/deaths/death_watch.hpp"
#include "support/catch.hpp"

#include <array>
#include <csignal>
#include <memory>
#include <string>
#include <vector>

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace muster;

namespace {

constexpr int kTimeoutMs = 30'000;

// A single worker. It needs no store, and holds its notice once it is up.
class Worker {
 public:
  explicit Worker(const char* how) {
    auto in = make_pipe();
    auto out = make_pipe();
    REQUIRE((in && out));
    pid_ = ::fork();
    if (pid_ == 0) {
      ::dup2(in->read.get(), 0);
      ::dup2(out->write.get(), 1);
      const std::array environment{"RANK=0", "WORLD_SIZE=1", static_cast<const char*>(nullptr)};
      ::execle(MUSTER_LIFE_WORKER, "worker", how, nullptr, environment.data());
      ::_exit(127);
    }
    go_ = std::move(in->write);
    said_ = std::move(out->read);
    REQUIRE(set_nonblocking(said_.get()));
  }

  ~Worker() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }

  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  [[nodiscard]] pid_t pid() const { return pid_; }

  void go() const { REQUIRE(::write(go_.get(), "g", 1) == 1); }

  // Waits until the process is dead but not reaped.
  void dies() const {
    siginfo_t info{};
    REQUIRE(::waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOWAIT) == 0);
  }

  [[nodiscard]] int said_fd() const { return said_.get(); }

 private:
  UniqueFd go_;
  UniqueFd said_;
  pid_t pid_ = -1;
};

class Page {
 public:
  explicit Page(const UniqueFd& memory)
      : at_(::mmap(nullptr, kLivenessPageBytes, PROT_READ, MAP_SHARED, memory.get(), 0)) {
    REQUIRE(at_ != MAP_FAILED);
  }

  ~Page() { ::munmap(at_, kLivenessPageBytes); }

  Page(const Page&) = delete;
  Page& operator=(const Page&) = delete;

  [[nodiscard]] pid_t first_dead() const {
    return static_cast<pid_t>(static_cast<const LivenessPage*>(at_)->first_dead.load());
  }

 private:
  void* at_;
};

class Launcher : public Watcher {
 public:
  explicit Launcher(bool knows = true)
      : poller_(std::move(*Poller::open())), watch_(poller_, [knows](pid_t) { return knows; }) {}

  // Answers requests meanwhile.
  void wait_for(const Worker& worker, const std::string& text) {
    REQUIRE(poller_.watch_input(worker.said_fd(), *this));
    fd_ = worker.said_fd();
    said_.clear();
    while (said_.find(text) == std::string::npos) {
      INFO(said_);
      REQUIRE(turns());
    }
    poller_.forget(fd_);
  }

  // Relies on the thread's notification alone.
  Dying wait_for_death() {
    std::vector<Dying> dying;
    while (dying.empty()) {
      REQUIRE(turns());
      dying = watch_.take_dying();
    }
    REQUIRE(dying.size() == 1);
    watch_.note_failure(dying.front().pid);
    return dying.front();
  }

  DeathWatch& watch() { return watch_; }

  // The page as any worker receives it; this process requests a notice, too.
  std::unique_ptr<Page> page() {
    const UniqueFd asker(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
    const UnixAddress address = liveness_address(::getpid());
    REQUIRE(::connect(asker.get(), address.raw(), address.size) == 0);
    REQUIRE(turns());
    LivenessOffer offer;
    const auto fds =
        receive_with_fds(asker.get(), {reinterpret_cast<char*>(&offer), sizeof(offer)});
    REQUIRE(fds.size() == 1);
    return std::make_unique<Page>(fds[0]);
  }

  void on_ready() override {
    std::array<char, 100> text{};
    const auto count = ::read(fd_, text.data(), text.size());
    ended_ = count == 0;
    said_.append(text.data(), count > 0 ? static_cast<std::size_t>(count) : 0);
  }

 private:
  // False: nothing has arrived.
  bool turns() {
    pollfd ready{poller_.fd(), POLLIN, 0};
    const bool any = !ended_ && ::poll(&ready, 1, kTimeoutMs) == 1;
    poller_.dispatch(0);
    return any;
  }

  Poller poller_;
  DeathWatch watch_;
  int fd_ = -1;
  std::string said_;
  bool ended_ = false;
};

}  // namespace

TEST_CASE("death notice: reveals a killed worker, with the signal") {
  Launcher launcher;
  Worker worker("0");
  launcher.wait_for(worker, "up");
  CHECK(launcher.watch().take_dying().empty());
  ::kill(worker.pid(), SIGKILL);
  const Dying dying = launcher.wait_for_death();
  CHECK(dying.pid == worker.pid());
  CHECK(dying.status == ExitStatus{.signaled = true, .value = SIGKILL});
  CHECK(launcher.watch().take_dying().empty());  // once
}

TEST_CASE("death notice: reveals a worker that exits, with its code, even after others") {
  Launcher launcher;
  for (const int code : {3, 75, 255}) {
    Worker worker(std::to_string(code).c_str());
    launcher.wait_for(worker, "up");
    worker.go();
    const Dying dying = launcher.wait_for_death();
    CHECK(dying.status == ExitStatus{.signaled = false, .value = code});
    launcher.watch().reaped(worker.pid(), dying.status);
  }
}

TEST_CASE("death notice: ignores a successful exit") {
  Launcher launcher;
  Worker worker("0");
  launcher.wait_for(worker, "up");
  worker.go();
  worker.dies();
  CHECK(launcher.watch().take_dying().empty());
}

TEST_CASE("death notice: the page names the worker whose death was seen first") {
  Launcher launcher;
  Worker first("0");
  launcher.wait_for(first, "up");
  Worker second("0");
  launcher.wait_for(second, "up");
  const auto page = launcher.page();
  CHECK(page->first_dead() == 0);
  ::kill(first.pid(), SIGKILL);
  CHECK(launcher.wait_for_death().pid == first.pid());
  CHECK(page->first_dead() == first.pid());
  ::kill(second.pid(), SIGKILL);
  CHECK(launcher.wait_for_death().pid == second.pid());
  CHECK(page->first_dead() == first.pid());
}

TEST_CASE("death notice: a failed worker that was only reaped can be the first, too") {
  Launcher launcher;
  Worker ends("0");
  launcher.wait_for(ends, "up");
  Worker killed("0");
  launcher.wait_for(killed, "up");
  const auto page = launcher.page();
  launcher.watch().reaped(ends.pid(), ExitStatus{.signaled = false, .value = 0});
  CHECK(page->first_dead() == 0);
  const ExitStatus by_signal{.signaled = true, .value = SIGKILL};
  launcher.watch().reaped(ends.pid(), by_signal);  // no longer holds a notice
  CHECK(page->first_dead() == 0);
  launcher.watch().reaped(killed.pid(), by_signal);
  CHECK(page->first_dead() == killed.pid());
}

TEST_CASE("death notice: a death in one attempt is not the first of the next one") {
  Launcher launcher;
  Worker killed("0");
  launcher.wait_for(killed, "up");
  const auto page = launcher.page();
  ::kill(killed.pid(), SIGKILL);
  CHECK(launcher.wait_for_death().pid == killed.pid());
  Worker next("0");
  launcher.wait_for(next, "up");
  CHECK(page->first_dead() == 0);
}

TEST_CASE("death notice: a worker that executes another program has not died") {
  Launcher launcher;
  Worker worker("/");
  launcher.wait_for(worker, "up");
  worker.go();
  launcher.wait_for(worker, "again");
  CHECK(launcher.watch().take_dying().empty());
  ::kill(worker.pid(), SIGKILL);
  worker.dies();
  CHECK(launcher.watch().take_dying().empty());  // it holds no notice, so only reaping reveals it
}

TEST_CASE("death notice: a process that is not a worker gets none") {
  Launcher launcher(false);
  Worker stranger("0");
  launcher.wait_for(stranger, "up");
  ::kill(stranger.pid(), SIGKILL);
  stranger.dies();
  CHECK(launcher.watch().take_dying().empty());
}

TEST_CASE("death notice: a released notice is reused", "[slow]") {
  Launcher launcher;
  for (std::size_t i = 0; i < kLivenessWords + 2; ++i) {
    Worker worker("0");
    launcher.wait_for(worker, "up");
    ::kill(worker.pid(), SIGKILL);
    const Dying dying = launcher.wait_for_death();
    CHECK(dying.pid == worker.pid());
    launcher.watch().reaped(worker.pid(), dying.status);
  }
}
