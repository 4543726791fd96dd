// SPDX-License-Identifier: Apache-2.0
#include "host/linux_machine.hpp"

#include "support/catch.hpp"

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include <sys/stat.h>
#include <unistd.h>

using namespace muster;

namespace {

// A folder that stands for a computer's /proc, /sys and /dev, and is removed at the end.
class FakeRoot {
 public:
  FakeRoot() {
    std::string name = (std::filesystem::temp_directory_path() / "muster-host-XXXXXX").string();
    REQUIRE(::mkdtemp(name.data()) != nullptr);
    path_ = name;
  }

  ~FakeRoot() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }

  FakeRoot(const FakeRoot&) = delete;
  FakeRoot& operator=(const FakeRoot&) = delete;

  void write(const std::string& name, const std::string& text) const {
    std::filesystem::create_directories((path_ + name).substr(0, (path_ + name).rfind('/')));
    std::ofstream(path_ + name) << text;
  }

  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace

TEST_CASE("linux machine: GPUs are counted below the given root, control nodes are not") {
  const FakeRoot root;
  for (const std::string name : {"nvidia0", "nvidia1", "nvidiactl", "nvidia-uvm", "nvidia1x"}) {
    root.write("/dev/" + name, "");
  }
  root.write("/proc/driver/nvidia/gpus/0000:07:00.0/information", "GPU UUID: \t GPU-aa-1\n");
  root.write("/proc/driver/nvidia/gpus/0000:0f:00.0/information", "GPU UUID: \t GPU-bb-2\n");
  const LinuxMachine machine(root.path());
  CHECK(machine.usable_gpus({}).count == 2);
  Environ env;
  env.set("CUDA_VISIBLE_DEVICES", "GPU-bb,GPU-zz");
  CHECK(machine.usable_gpus(env).count == 1);
}

TEST_CASE("linux machine: AMD nodes with compute units are GPUs, processors are not") {
  const FakeRoot root;
  root.write("/sys/class/kfd/kfd/topology/nodes/0/properties",
             "cpu_cores_count 64\nsimd_count 0\n");
  root.write("/sys/class/kfd/kfd/topology/nodes/1/properties", "simd_count 440\n");
  CHECK(LinuxMachine(root.path()).usable_gpus({}).count == 1);
}

TEST_CASE("linux machine: a quota of one processor is stronger than the affinity mask") {
  const FakeRoot root;
  root.write("/proc/self/cgroup", "0::/job\n");
  root.write("/proc/self/mountinfo", "31 25 0:27 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
  root.write("/sys/fs/cgroup/job/cpu.max", "50000 100000\n");
  CHECK(LinuxMachine(root.path()).usable_cpus().count == 1);
  const FakeRoot empty;
  const Count mask = LinuxMachine(empty.path()).usable_cpus();
  CHECK(mask.count >= 1);
  CHECK(mask.count <= ::sysconf(_SC_NPROCESSORS_CONF));
}

TEST_CASE("linux machine: kinds of files") {
  const FakeRoot root;
  root.write("/plain", "x");
  root.write("/program", "x");
  REQUIRE(::chmod((root.path() + "/program").c_str(), 0755) == 0);
  const LinuxMachine machine;
  CHECK(machine.file_kind(root.path() + "/plain") == FileKind::plain);
  CHECK(machine.file_kind(root.path() + "/program") == FileKind::executable);
  CHECK(machine.file_kind(root.path()) == FileKind::folder);
  CHECK(machine.file_kind(root.path() + "/none") == FileKind::missing);
  CHECK(machine.file_kind("/dev/null") == FileKind::other);
}

TEST_CASE("linux machine: a file is read whole, an endless one is refused") {
  const FakeRoot root;
  root.write("/text", std::string(10'000, 'x'));
  const LinuxMachine machine;
  CHECK(machine.read_file(root.path() + "/text") == std::string(10'000, 'x'));
  CHECK_FALSE(machine.read_file(root.path() + "/none"));
  CHECK_FALSE(machine.read_file("/dev/zero"));
}

TEST_CASE("linux machine: random digits are 32 and never the same") {
  const LinuxMachine machine;
  const std::string one = machine.random_hex();
  CHECK(one.size() == 32);
  CHECK(one.find_first_not_of("0123456789abcdef") == std::string::npos);
  CHECK(one != machine.random_hex());
}

TEST_CASE("linux machine: the path that this program was started by") {
  const std::string path = LinuxMachine().own_path();
  CHECK(path.ends_with("muster_test_host"));
  CHECK(LinuxMachine().file_kind(path) == FileKind::executable);
}
