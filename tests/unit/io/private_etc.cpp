// SPDX-License-Identifier: Apache-2.0
#include "private_etc.hpp"

#include "support/catch.hpp"

#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <net/if.h>
#include <utility>
#include <vector>

#include <netinet/in.h>
#include <sched.h>
#include <spawn.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

namespace {

void write_file(const std::string& path, const std::string& text) {
  std::ofstream file(path);
  file << text;
  file.close();
  INFO("writing " << path);
  REQUIRE(file.good());
}

void enter_namespaces() {
  if (::unshare(CLONE_NEWNS | CLONE_NEWNET) == 0) {
    return;
  }
  const auto uid = ::getuid();
  const auto gid = ::getgid();
  INFO("unshare: errno " << errno << "; these tests need root or user namespaces");
  REQUIRE(::unshare(CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWNET) == 0);
  write_file("/proc/self/setgroups", "deny");
  write_file("/proc/self/uid_map", "0 " + std::to_string(uid) + " 1");
  write_file("/proc/self/gid_map", "0 " + std::to_string(gid) + " 1");
}

void raise_loopback() {
  const int socket = ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  REQUIRE(socket >= 0);
  ifreq request{};
  std::memcpy(request.ifr_name, "lo", sizeof("lo"));
  REQUIRE(::ioctl(socket, SIOCGIFFLAGS, &request) == 0);
  request.ifr_flags = static_cast<short>(request.ifr_flags | IFF_UP);
  REQUIRE(::ioctl(socket, SIOCSIFFLAGS, &request) == 0);
  ::close(socket);
}

void run_ip(std::vector<std::string> args) {
  args.insert(args.begin(), "ip");
  std::vector<char*> argv;
  for (std::string& arg : args) {
    argv.push_back(arg.data());
  }
  argv.push_back(nullptr);
  pid_t child = 0;
  REQUIRE(::posix_spawnp(&child, "ip", nullptr, nullptr, argv.data(), environ) == 0);
  int status = -1;
  REQUIRE(::waitpid(child, &status, 0) == child);
  REQUIRE(status == 0);
}

}  // namespace

void start_with_empty_etc() {
  static bool entered = false;
  if (!entered) {
    enter_namespaces();
    REQUIRE(::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0);
    REQUIRE(::mount("none", "/etc", "tmpfs", 0, nullptr) == 0);
    REQUIRE(std::filesystem::is_empty("/etc"));
    raise_loopback();
    entered = true;
  }
  for (const auto& entry : std::filesystem::directory_iterator("/etc")) {
    std::filesystem::remove(entry);
  }
}

// A pair of interfaces, because the kernel has no route to link-local addresses of the loopback
// interface. nodad disables duplicate address detection, during which the address would be
// unusable.
void add_link_local_interface() {
  start_with_empty_etc();
  static bool added = false;
  if (!std::exchange(added, true)) {
    run_ip({"link", "add", "muster0", "type", "veth", "peer", "name", "muster1"});
    run_ip({"link", "set", "muster0", "up"});
    run_ip({"link", "set", "muster1", "up"});
    run_ip({"addr", "add", "fe80::1/64", "dev", "muster0", "nodad"});
  }
}

void write_etc(const std::string& name, const std::string& text) {
  write_file("/etc/" + name, text);
}
