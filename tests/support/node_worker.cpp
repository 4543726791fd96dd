// SPDX-License-Identifier: Apache-2.0
// node_worker: the worker of the multi-node tests. It records its environment and when it was
// alive, in a folder that all workers on all nodes share, $NODE_DIR:
//   events        one line of JSON for each event of each worker:
//                 start  immediately, with the variables that a worker gets
//                 met    the round's store answered; "round" is what its first worker wrote to it
//                 up     all WORLD_SIZE workers of the round have met at a barrier in that store
//                 store  the store still works (see below)
//   beats/*       16 mapped bytes for each worker: CLOCK_MONOTONIC of its start and of its last
//                 beat, every 2 ms; they show until when it was alive, however it ended
//   do/*          orders: the file ROUND.RANK, ROUND.all or all contains "exit N", "signal N" or
//                 "fail TEXT" (TEXT to stderr, then exit 1); ROUND.RANK.store requests a use of
//                 the store
// $NODE_LABEL names the node. With $NODE_ON_TERM=ignore it ignores SIGTERM.
#include "base/clock.hpp"
#include "rendezvous/client/blocking_store.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <charconv>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <thread>

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <unistd.h>

namespace {

using namespace std::chrono_literals;

constexpr int kBeatMs = 2;
constexpr auto kStoreTimeout = 120s;  // a worker without a store stays alive, like a real one

constexpr std::array kVariables{"LOCAL_RANK",
                                "RANK",
                                "GROUP_RANK",
                                "ROLE_RANK",
                                "ROLE_NAME",
                                "LOCAL_WORLD_SIZE",
                                "WORLD_SIZE",
                                "GROUP_WORLD_SIZE",
                                "ROLE_WORLD_SIZE",
                                "MASTER_ADDR",
                                "MASTER_PORT",
                                "TORCHELASTIC_RESTART_COUNT",
                                "TORCHELASTIC_MAX_RESTARTS",
                                "TORCHELASTIC_RUN_ID",
                                "TORCHELASTIC_USE_AGENT_STORE",
                                "TORCH_NCCL_ASYNC_ERROR_HANDLING",
                                "TORCHELASTIC_ERROR_FILE",
                                "TORCHELASTIC_SIGNALS_TO_HANDLE",
                                "SLURM_LOCALID",
                                "SLURM_NPROCS",
                                "SLURM_NTASKS",
                                "SLURM_PROCID",
                                "GLOO_SOCKET_IFNAME",
                                "NCCL_SOCKET_IFNAME"};

std::string variable(const char* name) {
  const char* text = std::getenv(name);
  return text == nullptr ? "" : text;
}

std::int64_t now() {
  return muster::steady_now().time_since_epoch().count();
}

// Only for text without control characters.
std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    out += c == '"' || c == '\\' ? std::string("\\") + c : std::string(1, c);
  }
  return out + "\"";
}

class Worker {
 public:
  Worker() : folder_(variable("NODE_DIR")), rank_(variable("RANK")) {
    const std::string events = folder_ + "/events";
    events_ = ::open(events.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
    map_beats();
    std::string environment;
    for (const char* name : kVariables) {
      if (std::getenv(name) != nullptr) {
        environment +=
            (environment.empty() ? "" : ",") + quoted(name) + ":" + quoted(variable(name));
      }
    }
    tell("start", ",\"env\":{" + environment + "}");
  }

  void work() {
    std::thread(&Worker::beat, this).detach();
    if (const auto text = meet(); !text.empty()) {
      tell("lost", ",\"why\":" + quoted(text));
    }
    while (true) {
      ::poll(nullptr, 0, kBeatMs);
      const std::string order = folder_ + "/do/" + round_ + "." + rank_ + ".store";
      if (store_ && ::access(order.c_str(), F_OK) == 0 && ::unlink(order.c_str()) == 0) {
        const auto count = store_->add("late", 1);
        tell("store", std::string(",\"ok\":") + (count ? "true" : "false"));
      }
    }
  }

 private:
  void map_beats() {
    const std::string path = folder_ + "/beats/" + variable("NODE_LABEL") + "." + rank_ + "." +
                             std::to_string(::getpid()) + "." + std::to_string(now());
    const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (fd < 0 || ::ftruncate(fd, 2 * sizeof(std::int64_t)) != 0) {
      std::perror("node_worker: beats");
      std::_Exit(96);
    }
    void* at = ::mmap(nullptr, 2 * sizeof(std::int64_t), PROT_WRITE, MAP_SHARED, fd, 0);
    beats_ = static_cast<volatile std::int64_t*>(at);
    beats_[0] = now();
    beats_[1] = beats_[0];
    ::close(fd);
  }

  void tell(const std::string& what, const std::string& more) const {
    // A line that SIGKILL cuts off damages only itself.
    const std::string line = "\n{\"what\":" + quoted(what) + ",\"at\":" + std::to_string(now()) +
                             ",\"pid\":" + std::to_string(::getpid()) +
                             ",\"node\":" + quoted(variable("NODE_LABEL")) +
                             ",\"round\":" + quoted(round_) + more + "}\n";
    if (::write(events_, line.data(), line.size()) != static_cast<ssize_t>(line.size())) {
      std::_Exit(96);
    }
  }

  // Empty, or what went wrong.
  std::string meet() {
    const std::string port = variable("MASTER_PORT");
    std::uint16_t number = 0;
    std::from_chars(port.data(), port.data() + port.size(), number);
    auto store = muster::BlockingStore::connect(variable("MASTER_ADDR"), number, kStoreTimeout);
    if (!store) {
      return store.error().message;
    }
    store_ = std::move(*store);
    const auto round =
        store_->compare_set("round", "", std::to_string(::getpid()) + "-" + std::to_string(now()));
    if (!round) {
      return round.error().message;
    }
    round_ = *round;
    is_known_ = true;
    tell("met", "");
    const auto world = std::strtol(variable("WORLD_SIZE").c_str(), nullptr, 10);
    if (const auto all = store_->barrier("up", world, kStoreTimeout); !all) {
      return all.error().message;
    }
    tell("up", "");
    return "";
  }

  void beat() {
    while (true) {
      beats_[1] = now();
      run_command("all");
      if (is_known_) {
        run_command(round_ + "." + rank_);
        run_command(round_ + ".all");
      }
      ::poll(nullptr, 0, kBeatMs);
    }
  }

  void run_command(const std::string& name) const {
    const std::string path = folder_ + "/do/" + name;
    if (::access(path.c_str(), F_OK) != 0) {
      return;
    }
    std::ifstream file(path);
    std::string verb;
    std::string rest;
    file >> verb >> std::ws;
    std::getline(file, rest);
    beats_[1] = now();
    if (verb == "exit") {
      std::_Exit(std::atoi(rest.c_str()));
    }
    if (verb == "signal") {
      std::signal(std::atoi(rest.c_str()), SIG_DFL);
      ::raise(std::atoi(rest.c_str()));
    }
    if (verb == "fail") {
      std::fprintf(stderr, "%s\n", rest.c_str());
      std::_Exit(1);
    }
  }

  std::string folder_;
  std::string rank_;
  std::string round_;
  std::atomic<bool> is_known_ = false;  // round_ is set, for the thread that writes beats
  int events_ = -1;
  volatile std::int64_t* beats_ = nullptr;
  std::unique_ptr<muster::BlockingStore> store_;
};

}  // namespace

int main() {
  if (variable("NODE_ON_TERM") == "ignore") {
    std::signal(SIGTERM, SIG_IGN);
  }
  Worker().work();
}
