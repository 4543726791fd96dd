// SPDX-License-Identifier: Apache-2.0
// A worker that uses the collective library, for tests of how the launcher detects its death.
//   life_worker HOW
//     prints "up", waits for a byte on its standard input, and exits with the code HOW; if HOW is
//     "/", executes a shell instead
//   life_worker await-signal DIR [MB]
//     writes its pid to DIR/up-RANK-ATTEMPT and waits for a signal: on SIGTERM it writes the time
//     to DIR/signalled-RANK-ATTEMPT and exits with 0, on SIGUSR1 with 3; rank 1 holds MB megabytes
//     of small pages
//   life_worker exit-on-loss DIR MB
//     rank 1 allocates MB megabytes and kills itself; the others exit with 9 when they notice
//   life_worker tell-death DIR
//     writes its pid in the same way; rank 1 does nothing, and rank 2, which ignores SIGTERM,
//     writes to DIR/told-2-ATTEMPT why the others' barrier failed
#include "collective/communicator.hpp"

#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>
#include <string_view>

#include <sys/mman.h>
#include <unistd.h>

namespace {

using muster::collective::Communicator;

int hold(const char* how) {
  static_cast<void>(std::puts("up"));
  static_cast<void>(std::fflush(stdout));
  char byte = 0;
  if (::read(0, &byte, 1) != 1) {
    return 2;
  }
  if (how[0] == '/') {
    ::execl("/bin/sh", "sh", "-c", "echo again; read word; exit 4", nullptr);
  }
  ::_exit(std::atoi(how));
}

bool take_memory(std::size_t megabytes) {
  const std::size_t bytes = megabytes << 20;
  void* const memory =
      ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED || ::madvise(memory, bytes, MADV_NOHUGEPAGE) != 0) {
    return false;
  }
  std::memset(memory, 1, bytes);
  return true;
}

// Creates the file atomically with its contents.
template <class Value>
void leave(const std::string& folder, const std::string& name, const Value& value) {
  const std::string path = folder + "/" + name;
  std::ofstream(path + ".new") << value;
  static_cast<void>(std::rename((path + ".new").c_str(), path.c_str()));
}

int await_signal(const Communicator& comm, const std::string& folder, std::size_t megabytes) {
  const std::string me = std::to_string(comm.rank()) + "-" + std::to_string(comm.epoch());
  if (megabytes > 0 && comm.rank() == 1 && !take_memory(megabytes)) {
    return 2;
  }
  sigset_t orders;
  sigemptyset(&orders);
  sigaddset(&orders, SIGTERM);
  sigaddset(&orders, SIGUSR1);
  ::pthread_sigmask(SIG_BLOCK, &orders, nullptr);
  leave(folder, "up-" + me, ::getpid());
  int order = 0;
  ::sigwait(&orders, &order);
  const auto moment = std::chrono::steady_clock::now().time_since_epoch();
  leave(folder, "signalled-" + me, std::chrono::nanoseconds(moment).count());
  ::_exit(order == SIGTERM ? 0 : 3);
}

int exit_on_loss(Communicator& comm, std::size_t megabytes) {
  if (comm.rank() == 1 && !take_memory(megabytes)) {
    return 2;
  }
  if (!comm.barrier()) {
    return 4;
  }
  if (comm.rank() == 1) {
    std::raise(SIGKILL);
  }
  static_cast<void>(comm.barrier());
  ::_exit(9);
}

int tell_death(Communicator& comm, const std::string& folder) {
  const std::string me = std::to_string(comm.rank()) + "-" + std::to_string(comm.epoch());
  if (comm.rank() == 2) {
    std::signal(SIGTERM, SIG_IGN);
  }
  leave(folder, "up-" + me, ::getpid());
  while (comm.rank() == 1) {
    ::pause();
  }
  const auto met = comm.barrier();
  leave(folder, "told-" + me, met ? "all are here" : met.error().text);
  return 4;
}

}  // namespace

int main(int count, char** argv) {
  auto comm = Communicator::from_env();
  if (!comm || count < 2) {
    const char* const usage =
        "usage: life_worker CODE | await-signal DIR [MB] | exit-on-loss DIR MB | tell-death DIR";
    static_cast<void>(std::puts(comm ? usage : comm.error().text.c_str()));
    return 2;
  }
  if (count > 2 && std::string_view(argv[1]) == "tell-death") {
    return tell_death(*comm, argv[2]);
  }
  if (count > 3 && std::string_view(argv[1]) == "exit-on-loss") {
    return exit_on_loss(*comm, std::strtoul(argv[3], nullptr, 10));
  }
  if (count > 2 && std::string_view(argv[1]) == "await-signal") {
    return await_signal(*comm, argv[2], count > 3 ? std::strtoul(argv[3], nullptr, 10) : 0);
  }
  return hold(argv[1]);
}
