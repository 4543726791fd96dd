// SPDX-License-Identifier: Apache-2.0
#include "private_etc.hpp"

#include "support/catch.hpp"

#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <net/if.h>

#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/socket.h>
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

void write_etc(const std::string& name, const std::string& text) {
  write_file("/etc/" + name, text);
}
