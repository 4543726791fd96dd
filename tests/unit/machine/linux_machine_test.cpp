// SPDX-License-Identifier: Apache-2.0
#include "machine/linux_machine.hpp"

#include "machine/gpu_devices.hpp"
#include "support/catch.hpp"

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include <sys/stat.h>
#include <unistd.h>

using namespace muster;

namespace {

// A folder that replaces a machine's /proc, /sys and /dev; removed at the end.
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

TEST_CASE("linux machine: counts GPUs under the given root, but not control nodes") {
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

TEST_CASE("linux machine: a GPU counts if its device node exists and can be opened") {
  const FakeRoot root;
  const std::string gpus = "/proc/driver/nvidia/gpus/";
  const auto card = [&](const std::string& address, const std::string& minor) {
    root.write(gpus + address + "/information",
               "Model: \t\t NVIDIA H100\nGPU UUID: \t GPU-" + minor + "\nDevice Minor: \t " +
                   minor + "\nGPU Excluded:\t No\n");
  };
  card("0000:1b:00.0", "1");
  card("0000:43:00.0", "0");
  card("0000:52:00.0", "2");
  card("0000:61:00.0", "3");
  root.write("/dev/nvidia1", "");
  root.write("/dev/nvidia3/in_place_of_a_node_that_a_cgroup_closes", "");
  CHECK(LinuxMachine(root.path()).usable_gpus({}).count == 1);
  CHECK(find_gpus(root.path()).nvidia == std::vector{Gpu{"0000:1b:00.0", "GPU-1", "NVIDIA H100"}});
  root.write("/dev/nvidia0", "");
  CHECK(LinuxMachine(root.path()).usable_gpus({}).count == 2);
  root.write(gpus + "0000:43:00.0/information", "Device Minor: 0\nGPU Excluded: Yes\n");
  CHECK(LinuxMachine(root.path()).usable_gpus({}).count == 1);
}

TEST_CASE("linux machine: without the driver's list each device node is a GPU") {
  const FakeRoot root;
  for (const std::string name : {"nvidia0", "nvidia7", "nvidiactl"}) {
    root.write("/dev/" + name, "");
  }
  CHECK(LinuxMachine(root.path()).usable_gpus({}).count == 2);
}

TEST_CASE("linux machine: a process sees GPUs that are split into slices as one device") {
  const FakeRoot root;
  const std::string folder = "/proc/driver/nvidia/capabilities/gpu0/mig/";
  root.write("/dev/nvidia0", "");
  for (const std::string name :
       {"config", "gi1/access", "gi1/ci0/access", "gi2/ci0/access", "gi2/ci1/access"}) {
    root.write(folder + name, "DeviceFileMinor: 3\n");
  }
  root.write("/proc/driver/nvidia/capabilities/gpu1/mig/gi1/ci0/access",
             "");  // not permitted to open
  int asked = 0;
  const LinuxMachine machine(root.path(), [&] {
    ++asked;
    return std::string(
        "GPU 0: A100 (UUID: GPU-a)\n MIG 1g Device 0: (UUID: MIG-a)\n"
        " MIG 1g Device 1: (UUID: MIG-b)\n");
  });
  CHECK(machine.usable_gpus({}) ==
        Count{1,
              "1 NVIDIA GPU in /dev, partitioned into 3 MIG slices (a process can use only one; "
              "--virtual-local-rank gives each worker its own)"});
  CHECK(asked == 0);
  CHECK(machine.mig_slices() == MigSlices{3, {"MIG-a", "MIG-b"}});
  CHECK(LinuxMachine(root.path()).mig_slices() == MigSlices{3, {}});
  root.write("/dev/nvidia2", "");  // a whole GPU as well
  CHECK(machine.usable_gpus({}).count == 2);
  CHECK(LinuxMachine("/nowhere").mig_slices() == MigSlices{});
}

TEST_CASE("linux machine: under WSL it asks nvidia-smi, because no file lists the GPUs") {
  const FakeRoot root;
  int asked = 0;
  const LinuxMachine machine(root.path(), [&] {
    ++asked;
    return std::string("GPU 0: RTX 4090 (UUID: GPU-a)\nGPU 1: RTX 4090 (UUID: GPU-b)\n");
  });
  CHECK(machine.usable_gpus({}).count == 0);
  CHECK(asked == 0);
  root.write("/dev/dxg", "");
  CHECK(machine.usable_gpus({}) == Count{2, "2 NVIDIA GPUs by nvidia-smi"});
  Environ env;
  env.set("CUDA_VISIBLE_DEVICES", "GPU-b");
  CHECK(machine.usable_gpus(env).count == 1);
}

TEST_CASE("linux machine: addresses and names of AMD GPUs") {
  const FakeRoot root;
  const std::string nodes = "/sys/class/kfd/kfd/topology/nodes/";
  root.write(nodes + "0/properties", "cpu_cores_count 64\nsimd_count 0\n");
  root.write(nodes + "10/properties", "simd_count 1216\nlocation_id 3072\ndomain 1\n");
  root.write(nodes + "9/properties",
             "simd_count 1216\nunique_id 18446744073709551615\nlocation_id 8714\ndomain 0\n");
  CHECK(find_gpus(root.path()).amd ==
        std::vector{Gpu{"0000:22:01.2", "GPU-ffffffffffffffff", ""}, Gpu{"0001:0c:00.0", "", ""}});
  CHECK(LinuxMachine(root.path()).has_amd_gpus());
  CHECK_FALSE(LinuxMachine("/nowhere").has_amd_gpus());
}

TEST_CASE("linux machine: a mask contains our own affinity, and memory of the cpuset's nodes") {
  const LinuxMachine machine;
  const auto plan = machine.numa_plan(NumaPolicy::node, 1, {});
  REQUIRE(plan);
  REQUIRE(plan->ranks.size() == 1);
  const std::string status = machine.read_file("/proc/self/status").value();
  const auto field = [&](const std::string& name) {
    const auto begin = status.find(name) + name.size();
    return CpuSet::parse(status.substr(begin, status.find('\n', begin) - begin)).value();
  };
  CHECK((plan->ranks[0].cpus - field("Cpus_allowed_list:")).empty());
  CHECK((plan->ranks[0].memory - field("Mems_allowed_list:")).empty());
  CHECK(machine.numa_plan(NumaPolicy::none, 1, {})->ranks.empty());
}

TEST_CASE("linux machine: the CPUs count as our own if the machine has others") {
  const FakeRoot root;
  const LinuxMachine machine(root.path());
  CHECK(machine.has_own_cpus(std::nullopt));  // nothing is known about other jobs
  root.write("/sys/devices/system/cpu/online", "0-8191\n");
  CHECK(machine.has_own_cpus(std::nullopt));
  CHECK(machine.has_own_cpus(8192));
  CHECK_FALSE(machine.has_own_cpus(1));
  root.write("/sys/devices/system/cpu/online", "0\n");
  CHECK_FALSE(machine.has_own_cpus(std::nullopt));
}

TEST_CASE("linux machine: AMD nodes with compute units are GPUs, CPUs are not") {
  const FakeRoot root;
  root.write("/sys/class/kfd/kfd/topology/nodes/0/properties",
             "cpu_cores_count 64\nsimd_count 0\n");
  root.write("/sys/class/kfd/kfd/topology/nodes/1/properties", "simd_count 440\n");
  CHECK(LinuxMachine(root.path()).usable_gpus({}).count == 1);
}

TEST_CASE("linux machine: a quota of one CPU takes precedence over the affinity mask") {
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

TEST_CASE("linux machine: reads a whole file, rejects an endless one") {
  const FakeRoot root;
  root.write("/text", std::string(10'000, 'x'));
  const LinuxMachine machine;
  CHECK(machine.read_file(root.path() + "/text") == std::string(10'000, 'x'));
  CHECK_FALSE(machine.read_file(root.path() + "/none"));
  CHECK_FALSE(machine.read_file("/dev/zero"));
}

TEST_CASE("linux machine: returns 32 random digits, different each time") {
  const LinuxMachine machine;
  const std::string one = machine.random_hex();
  CHECK(one.size() == 32);
  CHECK(one.find_first_not_of("0123456789abcdef") == std::string::npos);
  CHECK(one != machine.random_hex());
}

TEST_CASE("linux machine: the path by which this program was started") {
  const std::string path = LinuxMachine().own_path();
  CHECK(path.ends_with("muster_test_machine"));
  CHECK(LinuxMachine().file_kind(path) == FileKind::executable);
}
