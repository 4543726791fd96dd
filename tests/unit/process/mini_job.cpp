// SPDX-License-Identifier: Apache-2.0
// mini-job: a minimal agent on top of process/, for its tests: starts workers under the guard,
// kills them all on a signal or when the guard dies, and returns the first failure's code.
//   mini-job [--out KIND] [--err KIND] [--dir DIR] [--prefix TEXT] [--filter TEXT] [--more SIGNO]
//            [--timeout MS] [--tails] [--stdin] [--path PATH] [--quiet] [--plain] [--tell-end]
//            [--listen] [--lease MS]
//            COUNT PROGRAM ARGS...
// KIND is inherit, discard, capture, file or tee. Without --quiet it prints its own pid, the
// agent's and the workers' as lines on standard output. --listen: guard and agent both hold a
// socket from before the fork; the agent listens on it and prints the port. --lease: after each
// SIGUSR2, the workers may run for this time.
#include "base/clock.hpp"
#include "process/guard/guard.hpp"
#include "process/run/linux_runner.hpp"
#include "process/start/inherited_state.hpp"

#include <asio/io_context.hpp>
#include <asio/posix/stream_descriptor.hpp>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

namespace {

using namespace muster;

struct Options {
  std::map<std::string, std::string> values;
  int count = 1;
  std::vector<std::string> program;

  [[nodiscard]] std::string get(const std::string& name, const std::string& otherwise) const {
    const auto found = values.find(name);
    return found == values.end() ? otherwise : found->second;
  }

  [[nodiscard]] bool has(const std::string& name) const { return values.contains(name); }
};

Options parse(int argc, char** argv) {
  Options options;
  int at = 1;
  for (; at < argc && std::strncmp(argv[at], "--", 2) == 0; ++at) {
    const std::string name = argv[at];
    const bool flag = name == "--tails" || name == "--stdin" || name == "--quiet" ||
                      name == "--plain" || name == "--tell-end" || name == "--listen";
    options.values[name] = flag ? "1" : argv[++at];
  }
  options.count = std::atoi(argv[at++]);
  options.program.assign(argv + at, argv + argc);
  return options;
}

OutputPlan plan_for(const Options& options, const std::string& name, int rank) {
  const std::string kind = options.get(name, "inherit");
  const std::string stream = name == "--out" ? "stdout" : "stderr";
  const std::string dir = options.get("--dir", "");
  OutputPlan plan;
  plan.kind = kind == "discard"   ? OutputKind::discard
              : kind == "capture" ? OutputKind::capture
              : kind == "inherit" ? OutputKind::inherit
                                  : OutputKind::file;
  plan.path = dir + "/" + std::to_string(rank) + "/" + stream + ".log";
  plan.tee = kind == "tee";
  if (options.has("--prefix")) {
    plan.prefix = options.get("--prefix", "") + std::to_string(rank) + ":";
  }
  if (options.has("--filter") && plan.tee) {
    plan.filters = {options.get("--filter", "")};
    plan.filtered_path = dir + "/filtered_" + stream + ".log";
  }
  return plan;
}

// Created by main before the fork.
struct Shared {
  UniqueFd socket;
  std::optional<LeaseTimer> lease;
};

class MiniAgent final : public ProcessObserver {
 public:
  MiniAgent(const Options& options, const Shared& shared, UniqueFd link)
      : options_(options), shared_(shared), link_(io_, link.release()) {}

  int run() {
    auto runner = LinuxRunner::open(
        io_, *this, {.colours = !options_.has("--plain"), .interrupt_fd = link_.native_handle()});
    if (!runner) {
      std::fprintf(stderr, "%s\n", runner.error().message.c_str());
      return 70;
    }
    runner_ = std::move(*runner);
    tell("job " + std::to_string(::getppid()) + " agent " + std::to_string(::getpid()));
    if (shared_.socket) {
      listen();
    }
    for (int rank = 0; rank < options_.count && code_ == 0; ++rank) {
      start(rank);
    }
    await_link();
    io_.run();
    [[maybe_unused]] const auto told =
        options_.has("--tell-end") ? ::write(2, "finishing\n", 10) : 0;
    runner_->finish_output(
        std::chrono::milliseconds(std::atoi(options_.get("--timeout", "10000").c_str())));
    show_tails();
    runner_.reset();
    return code_;
  }

  void on_worker_exit(const WorkerExit& exit) override {
    if (code_ == 0) {
      code_ = exit.status.shell_code();
    }
    if (exit.out_of_memory) {
      tell("out of memory: " + exit.memory_usage);
    }
  }

  void on_groups_empty() override {
    tell("groups empty");
    runner_->kill_everything();
  }

  void on_nothing_left() override { io_.stop(); }

 private:
  void listen() {
    sockaddr_in place{};
    place.sin_family = AF_INET;
    place.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(place);
    const int fd = shared_.socket.get();
    if (::bind(fd, reinterpret_cast<sockaddr*>(&place), size) != 0 || ::listen(fd, 8) != 0 ||
        ::getsockname(fd, reinterpret_cast<sockaddr*>(&place), &size) != 0) {
      std::_Exit(95);
    }
    tell("port " + std::to_string(ntohs(place.sin_port)));
  }

  void renew_lease() const {
    if (shared_.lease) {
      shared_.lease->run_until(
          steady_now() + std::chrono::milliseconds(std::atoi(options_.get("--lease", "").c_str())));
    }
  }

  void start(int rank) {
    ProcessSpec spec;
    spec.local_rank = rank;
    spec.rank = rank;
    spec.argv = options_.program;
    spec.environment = {"RANK=" + std::to_string(rank), "PATH=" + options_.get("--path", "/bin")};
    spec.standard_input = options_.has("--stdin") ? InputKind::inherit : InputKind::none;
    spec.standard_output = plan_for(options_, "--out", rank);
    spec.standard_error = plan_for(options_, "--err", rank);
    const auto pid = runner_->spawn(spec);
    if (pid) {
      tell("worker " + std::to_string(*pid));
      return;
    }
    std::fprintf(stderr, "%s\n", pid.error().message.c_str());
    code_ = pid.error().code == Errc::not_found ? 127 : 126;
    runner_->kill_everything();
  }

  void await_link() {
    link_.async_read_some(asio::buffer(&notice_, sizeof(notice_)),
                          [this](const std::error_code& error, std::size_t) {
                            if (error) {
                              runner_->kill_everything();
                              return;
                            }
                            dispatch();
                            await_link();
                          });
  }

  void dispatch() {
    const int signo = notice_.signo;
    if (signo == SIGUSR2) {
      renew_lease();
    }
    tell("notice " + std::to_string(signo));
    if (signo == SIGUSR1 || signo == SIGUSR2) {
      runner_->signal_workers(signo);
    } else if (signo == SIGALRM) {
      runner_->kill_everything();
    } else {
      runner_->signal_groups(signo == SIGTSTP ? SIGSTOP : signo, GroupsOf::all_workers);
    }
  }

  void show_tails() {
    for (int rank = 0; options_.has("--tails") && rank < options_.count; ++rank) {
      tell("tail " + std::to_string(rank) + ": " + runner_->stderr_tail(rank));
    }
  }

  void tell(const std::string& text) const {
    if (!options_.has("--quiet")) {
      const std::string line = text + "\n";
      [[maybe_unused]] const auto written = ::write(1, line.data(), line.size());
    }
  }

  const Options& options_;
  const Shared& shared_;
  asio::io_context io_{1};
  asio::posix::stream_descriptor link_;
  std::unique_ptr<LinuxRunner> runner_;
  SignalNotice notice_;
  int code_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  prepare_process();
  const Options options = parse(argc, argv);
  std::vector<int> more;
  if (options.has("--more")) {
    more.push_back(std::atoi(options.get("--more", "").c_str()));
  }
  Shared shared;
  if (options.has("--listen")) {
    shared.socket = UniqueFd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  }
  if (options.has("--lease")) {
    shared.lease =
        *LeaseTimer::make(std::chrono::milliseconds(std::atoi(options.get("--lease", "").c_str())));
  }
  return run_guarded(
      [&](GuardLink link) {
        hide_command_line(argc, argv);
        return MiniAgent(options, shared, std::move(link.signals)).run();
      },
      more,
      shared.lease ? &*shared.lease : nullptr,
      std::chrono::milliseconds(std::atoi(options.get("--grace", "0").c_str())));
}
