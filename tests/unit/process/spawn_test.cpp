// SPDX-License-Identifier: Apache-2.0
#include "process/start/spawn.hpp"

#include "job_probe.hpp"
#include "process/tree/descendants.hpp"
#include "process/values/memory_policy.hpp"
#include "support/catch.hpp"

#include <array>
#include <csignal>
#include <cstring>

#include <fcntl.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace muster;
using namespace muster::testing;

namespace {

ProcessSpec spec_of(std::vector<std::string> argv, std::vector<std::string> environment = {}) {
  ProcessSpec spec;
  spec.argv = std::move(argv);
  spec.environment = std::move(environment);
  return spec;
}

Error refusal(const ProcessSpec& spec) {
  const auto pid = spawn_process(spec, {}, inherited_state());
  REQUIRE_FALSE(pid);
  return pid.error();
}

// A program's standard output and exit status.
std::string output_of(const ProcessSpec& spec, const InheritedState& signals) {
  auto pipe = *make_pipe();
  const auto pid = spawn_process(spec, {.in = -1, .out = pipe.write.get(), .err = -1}, signals);
  REQUIRE(pid);
  pipe.write.reset();
  std::string text(4096, '\0');
  std::size_t size = 0;
  while (true) {
    const auto count = ::read(pipe.read.get(), text.data() + size, text.size() - size);
    if (count <= 0) {
      break;
    }
    size += static_cast<std::size_t>(count);
  }
  ::waitpid(*pid, nullptr, 0);
  text.resize(size);
  return text;
}

CpuSet own_cpus() {
  std::array<CpuSet::Word, 1024> words{};
  REQUIRE(::sched_getaffinity(0, sizeof words, reinterpret_cast<cpu_set_t*>(words.data())) == 0);
  return CpuSet::from_words(words);
}

}  // namespace

TEST_CASE("spawn: names a missing file") {
  const auto error = refusal(spec_of({"./no-such-train"}));
  CHECK(error.code == Errc::not_found);
  CHECK(error.message == "cannot start './no-such-train': no such file");
}

TEST_CASE("spawn: reports that a name is not in PATH") {
  const auto error = refusal(spec_of({"no-such-train"}, {"PATH=/bin:/nowhere"}));
  CHECK(error.code == Errc::not_found);
  CHECK(error.message == "cannot start 'no-such-train': not found in PATH");
}

TEST_CASE("spawn: suggests a remedy for a file that is not executable") {
  const TempDir dir;
  const auto path = dir.path() + "/train";
  write_file(path, "#!/bin/sh\n");
  const auto error = refusal(spec_of({path}));
  CHECK(error.code == Errc::not_possible);
  CHECK(error.message == "cannot start '" + path + "': it is not executable. Run chmod +x " + path);
}

TEST_CASE("spawn: distinguishes a non-executable file in PATH from a missing one") {
  const TempDir dir;
  write_file(dir.path() + "/train", "#!/bin/sh\n");
  const auto error = refusal(spec_of({"train"}, {"PATH=" + dir.path() + ":/nowhere"}));
  CHECK(error.code == Errc::not_possible);
  CHECK(error.message ==
        "cannot start 'train': it is not executable. Run chmod +x " + dir.path() + "/train");
}

TEST_CASE("spawn: names a script's missing interpreter") {
  const TempDir dir;
  const auto path = dir.path() + "/train";
  write_file(path, "#! /no/python9 -u\nx\n", 0755);
  CHECK(refusal(spec_of({path})).message ==
        "cannot start '" + path + "': its interpreter '/no/python9' does not exist");
  write_file(path, "#!/bin/sh\r\nx\r\n", 0755);
  const auto error = refusal(spec_of({path}));
  CHECK(error.code == Errc::not_found);
  CHECK(error.message.find("carriage return") != std::string::npos);
}

TEST_CASE("spawn: a folder is not a program") {
  const TempDir dir;
  const auto error = refusal(spec_of({dir.path()}));
  CHECK(error.code == Errc::not_possible);
  CHECK(error.message == "cannot start '" + dir.path() + "': it is a directory");
}

TEST_CASE("spawn: a failed start leaves no child process") {
  const auto before = children_of(::getpid());
  CHECK(refusal(spec_of({"./no-such-train"})).code == Errc::not_found);
  CHECK(children_of(::getpid()) == before);
}

TEST_CASE("spawn: the shell runs a script without a shebang line, with its arguments") {
  const TempDir dir;
  const auto path = dir.path() + "/train";
  write_file(path, "echo \"$0 $1\"\n", 0755);
  CHECK(output_of(spec_of({path, "a b"}), inherited_state()) == path + " a b\n");
}

TEST_CASE("spawn: an empty program does nothing, as in a shell") {
  const TempDir dir;
  const auto path = dir.path() + "/train";
  write_file(path, "", 0755);
  CHECK(output_of(spec_of({path}), inherited_state()).empty());
}

TEST_CASE("spawn: does not pass a program for another machine to the shell") {
  const TempDir dir;
  const auto path = dir.path() + "/train";
  // The header of an ELF program for s390x.
  std::string header(
      "\x7f"
      "ELF\2\2\1\0\0\0\0\0\0\0\0\0\0\2\0\x16",
      20);
  write_file(path, header + std::string(44, '\0'), 0755);
  const auto error = refusal(spec_of({path}));
  CHECK(error.code == Errc::not_possible);
  CHECK(error.message.starts_with("cannot start '" + path +
                                  "': exec format error: it was built for s390x, but this "
                                  "machine is "));
}

TEST_CASE("spawn: passes arguments and environment unchanged") {
  CHECK(output_of(spec_of({kPuppet, "getenv", "A", "getenv", "PATH", "say", ""}, {"A=x=y z"}),
                  inherited_state()) == "x=y z\n(unset)\n\n");
}

TEST_CASE("spawn: a worker leads its own session and group") {
  const auto text = output_of(spec_of({kPuppet, "pids"}), inherited_state());
  int pid = 0;
  int parent = 0;
  int group = 0;
  int session = 0;
  REQUIRE(
      std::sscanf(
          text.c_str(), "pid %d parent %d group %d session %d", &pid, &parent, &group, &session) ==
      4);
  CHECK(parent == ::getpid());
  CHECK(group == pid);
  CHECK(session == pid);
}

TEST_CASE("spawn: the worker gets the original signal mask and dispositions") {
  const auto before = ::signal(SIGPIPE, SIG_IGN);
  sigset_t blocked;
  sigset_t old;
  sigfillset(&blocked);
  ::sigprocmask(SIG_SETMASK, &blocked, &old);
  InheritedState signals;
  sigemptyset(&signals.mask);
  sigemptyset(&signals.ignored);
  CHECK(output_of(spec_of({kPuppet, "mask"}), signals) == "blocked:\nignored:\n");
  sigaddset(&signals.mask, SIGUSR1);
  sigaddset(&signals.ignored, SIGPIPE);
  CHECK(output_of(spec_of({kPuppet, "mask"}), signals) == "blocked: USR1\nignored: PIPE\n");
  ::sigprocmask(SIG_SETMASK, &old, nullptr);
  ::signal(SIGPIPE, before);
}

TEST_CASE("spawn: a worker starts on its CPUs, and ours stay unchanged") {
  const CpuSet before = own_cpus();
  ProcessSpec spec = spec_of({"/bin/grep", "Cpus_allowed_list", "/proc/self/status"});
  spec.cpus.add(before.first());
  CHECK(output_of(spec, inherited_state()) == "Cpus_allowed_list:\t" + spec.cpus.describe() + "\n");
  CHECK(own_cpus() == before);
}

TEST_CASE("spawn: names nonexistent CPUs") {
  ProcessSpec spec = spec_of({"/bin/true"});
  spec.cpus.add(CpuSet::kNumbersMax - 1);
  const auto error = refusal(spec);
  CHECK(error.message.starts_with("cannot bind a worker to CPUs 65535 (were they removed"));
}

TEST_CASE("spawn: starts a worker despite nonexistent memory nodes") {
  ProcessSpec spec = spec_of({"/bin/echo", "runs"});
  spec.cpus.add(own_cpus().first());
  spec.memory.add(1000);
  CHECK(output_of(spec, inherited_state()) == "runs\n");
}

TEST_CASE("memory policy: prefers one node, or several together") {
  const auto one = memory_policy(CpuSet::parse("1").value());
  CHECK(one == MemoryPolicy{1, {2}, 65});
  const auto several = memory_policy(CpuSet::parse("0,64").value());
  CHECK(several == MemoryPolicy{5, {1, 1}, 129});
  CHECK(memory_policy({}).nodes.empty());
}

TEST_CASE("spawn: a worker inherits none of our descriptors") {
  const UniqueFd leaky(::open("/dev/null", O_RDONLY));  // not close-on-exec
  REQUIRE(leaky.get() > 2);
  CHECK(output_of(spec_of({kPuppet, "fds"}), inherited_state()) == "open: 0 1 2\n");
  CHECK(::fcntl(leaky.get(), F_GETFD) == 0);  // ours is unchanged
}

TEST_CASE("spawn: reports the same error as execvp if arguments are too long") {
  std::vector<std::string> argv(40, std::string(120'000, 'x'));
  argv[0] = "/bin/true";
  const auto error = refusal(spec_of(argv));
  CHECK(error.code == Errc::not_possible);
  CHECK(error.message == "cannot start '/bin/true': arguments and environment are too long");
}
