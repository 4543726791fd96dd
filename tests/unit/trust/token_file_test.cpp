// SPDX-License-Identifier: Apache-2.0
#include "trust/token_file.hpp"

#include "support/catch.hpp"

#include <filesystem>
#include <fstream>
#include <set>
#include <string>

#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace muster;
namespace fs = std::filesystem;

namespace {

constexpr uid_t kUs = 1000;
constexpr uid_t kStranger = 1001;

// A home directory in shared memory, because test folders may be on a container's own layer.
class Home {
 public:
  Home() {
    std::string name = "/dev/shm/muster_test_XXXXXX";
    REQUIRE(::mkdtemp(name.data()) != nullptr);
    path_ = name;
  }

  Home(const Home&) = delete;
  Home& operator=(const Home&) = delete;

  ~Home() { fs::remove_all(path_); }

  [[nodiscard]] std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

std::string write(const std::string& path, const std::string& text, mode_t mode = 0600) {
  std::ofstream(path) << text;
  REQUIRE(::chmod(path.c_str(), mode) == 0);
  return path;
}

Result<Token> read_file(const std::string& path) {
  return read_token({TokenFrom::file, path, ""});
}

const std::string kSecret = "0123456789abcdef";

}  // namespace

TEST_CASE("token file: on a mount with fixed modes the user is responsible for access") {
  CHECK_FALSE(fault_of_token_file({.owner = kStranger, .mode = 0777}, kUs).empty());
  CHECK(fault_of_token_file({.owner = kStranger, .mode = 0777, .is_shared = true}, kUs).empty());
  CHECK_FALSE(fault_of_token_file({.is_regular = false, .is_shared = true}, kUs).empty());
  const Home home;
  const std::string path = write(home / "token", kSecret + "\n", 0777);
  CHECK_FALSE(read_token(token_file_source(path)));
  const auto token = read_token(token_file_source(path + ",shared"));
  REQUIRE(token);
  CHECK(token->secret == kSecret);
}

TEST_CASE("token file: does not use another user's home") {
  const Home home;
  const std::string folder = home / "home";
  REQUIRE(::mkdir(folder.c_str(), 0755) == 0);
  if (::chown(folder.c_str(), kStranger, kStranger) != 0) {
    WARN("skipped: needs root to change a folder's owner");
    return;
  }
  const auto token = read_token({TokenFrom::home, folder + "/.config/muster/token", ""});
  REQUIRE(token);
  CHECK(token->secret.empty());
  CHECK(token->why_none.find("belongs to user 1001") != std::string::npos);
  CHECK_FALSE(fs::exists(folder + "/.config"));
}

TEST_CASE("token file: homes on network file systems are shared, those on local ones are not") {
  // NFS, SMB 2, CIFS, Lustre, GPFS, BeeGFS, CephFS, 9p
  for (const std::uint32_t type : {0x6969U,
                                   0xfe534d42U,
                                   0xff534d42U,
                                   0x0bd00bd0U,
                                   0x47504653U,
                                   0x19830326U,
                                   0x00c36400U,
                                   0x01021997U}) {
    CAPTURE(type);
    CHECK(is_network_file_system(type));
  }
  // ext4, XFS, Btrfs, tmpfs, overlayfs
  for (const std::uint32_t type : {0xef53U, 0x58465342U, 0x9123683eU, 0x01021994U, 0x794c7630U}) {
    CAPTURE(type);
    CHECK_FALSE(is_network_file_system(type));
  }
}

TEST_CASE("token file: permitted owners and modes") {
  CHECK(fault_of_token_file({.owner = kUs, .mode = 0600}, kUs).empty());
  CHECK(fault_of_token_file({.owner = kUs, .mode = 0400}, kUs).empty());
  CHECK(fault_of_token_file({.owner = 0, .mode = 0440}, kUs).empty());
  CHECK(fault_of_token_file({.owner = 0, .mode = 0400, .link_owner = 0}, kUs).empty());
  CHECK(fault_of_token_file({.owner = 0, .mode = 0440}, 0).empty());
  CHECK_THAT(fault_of_token_file({.is_regular = false, .owner = kUs}, kUs),
             Catch::Contains("not a regular file"));
  CHECK_THAT(fault_of_token_file({.owner = kStranger}, kUs), Catch::Contains("user 1001"));
  CHECK_THAT(fault_of_token_file({.owner = kUs, .link_owner = kStranger}, kUs),
             Catch::Contains("a symbolic link that belongs to user 1001"));
  for (const mode_t mode : {0640U, 0604U, 0620U, 0602U, 0644U, 0666U}) {
    CHECK_THAT(fault_of_token_file({.owner = kUs, .mode = mode}, kUs),
               Catch::Contains("other users can access it"));
  }
  for (const mode_t mode : {0444U, 0460U, 0404U}) {
    CHECK_THAT(fault_of_token_file({.owner = 0, .mode = mode}, kUs),
               Catch::Contains("other users can access it"));
  }
}

TEST_CASE("token file: parses the contents, and no error prints them") {
  CHECK(*take_token(kSecret + "\r\n") == kSecret);
  CHECK(*take_token(std::string(kMaxTokenBytes, 'x')) == std::string(kMaxTokenBytes, 'x'));
  const auto longer = take_token(std::string(kMaxTokenBytes + 1, 'x'));
  REQUIRE_FALSE(longer);
  CHECK_THAT(longer.error().message, Catch::Contains("longer than 4096 bytes"));
  const auto shorter = take_token("qwertyqwertyqwe\n");
  REQUIRE_FALSE(shorter);
  CHECK_THAT(shorter.error().message, Catch::Contains("has 15 bytes") && !Catch::Contains("qwer"));
}

TEST_CASE("token file: reads the named file through links, like a pod's") {
  const Home home;
  CHECK(read_file(write(home / "t", kSecret + "\n"))->secret == kSecret);
  // Mounted like a Kubernetes secret: token → ..data/token, ..data → ..2026.
  fs::create_directory(home / "..2026");
  write(home / "..2026/token", kSecret, 0400);
  fs::create_directory_symlink("..2026", home / "..data");
  fs::create_symlink("..data/token", home / "token");
  CHECK(read_file(home / "token")->secret == kSecret);
  CHECK_THAT(read_file(home / "none").error().message, Catch::Contains("No such file"));
  CHECK_THAT(read_file(write(home / "open", kSecret, 0644)).error().message,
             Catch::Contains("other users can access it (mode 0644)"));
  CHECK_THAT(read_file(home / "..2026").error().message, Catch::Contains("not a regular file"));
  REQUIRE(::mkfifo((home / "pipe").c_str(), 0600) == 0);
  CHECK_THAT(read_file(home / "pipe").error().message, Catch::Contains("not a regular file"));
  CHECK(read_file(home / "none").error().code == Errc::usage);
}

TEST_CASE("token file: creates the home's file once, for its owner only, and then reads it") {
  const Home home;
  const TokenSource source{TokenFrom::home, home / ".config/muster/token", ""};
  const auto made = read_token(source);
  REQUIRE(made);
  CHECK(made->secret.size() == 2 * kMadeTokenBytes);
  CHECK(read_token(source)->secret == made->secret);

  struct stat facts {};

  REQUIRE(::stat(source.path.c_str(), &facts) == 0);
  CHECK((facts.st_mode & 07777U) == 0600U);
  REQUIRE(::stat((home / ".config/muster").c_str(), &facts) == 0);
  CHECK((facts.st_mode & 07777U) == 0700U);
  const auto left = fs::directory_iterator(home / ".config/muster");
  CHECK(std::distance(begin(left), end(left)) == 1);
}

TEST_CASE("token file: nodes that start together with one home agree") {
  const Home home;
  const std::string path = home / "c/muster/token";
  constexpr int kNodes = 16;
  int out[2];
  REQUIRE(::pipe(out) == 0);
  for (int i = 0; i < kNodes; ++i) {
    if (::fork() == 0) {
      const auto token = read_token({TokenFrom::home, path, ""});
      const std::string said = token ? token->secret : std::string(2 * kMadeTokenBytes, '?');
      _exit(::write(out[1], said.data(), said.size()) == 2 * kMadeTokenBytes ? 0 : 1);
    }
  }
  std::set<std::string> tokens;
  for (int i = 0; i < kNodes; ++i) {
    std::string token(2 * kMadeTokenBytes, ' ');
    REQUIRE(::read(out[0], token.data(), token.size()) == static_cast<ssize_t>(token.size()));
    tokens.insert(token);
    REQUIRE(::wait(nullptr) > 0);
  }
  CHECK(tokens.size() == 1);
  CHECK(tokens.count(std::string(2 * kMadeTokenBytes, '?')) == 0);
  ::close(out[0]);
  ::close(out[1]);
}

TEST_CASE("token file: a home where no file can be created is not an error") {
  const Home home;
  const auto pod = read_token({TokenFrom::home, home / "muster/token", "", "it is a pod's"});
  REQUIRE(pod);
  CHECK(pod->secret.empty());
  CHECK_THAT(pod->why_none, Catch::Contains("it is a pod's") && Catch::Contains("--token-file"));
  CHECK_FALSE(fs::exists(home / "muster"));
  const auto missing = read_token({TokenFrom::home, "/proc/none/muster/token", ""});
  REQUIRE(missing);
  CHECK(missing->secret.empty());
  CHECK_FALSE(missing->why_none.empty());
  CHECK(missing->is_local);
  CHECK(read_token({TokenFrom::nowhere, "", "HOME is not set"})->is_local);
  TokenSource none{TokenFrom::nowhere, "", "--token=none"};
  none.is_off = true;
  const auto off = read_token(none);
  CHECK(off->secret.empty());
  CHECK_FALSE(off->is_local);
  CHECK(off->why_none == "--token=none");
}

TEST_CASE("token file: an insecure file in the home is an error") {
  const Home home;
  fs::create_directory(home / "muster");
  write(home / "muster/token", kSecret, 0644);
  const auto token = read_token({TokenFrom::home, home / "muster/token", ""});
  REQUIRE_FALSE(token);
  CHECK_THAT(token.error().message, Catch::Contains("other users can access it"));
}

TEST_CASE("token file: a new token is always different") {
  CHECK(make_token() != make_token());
}
