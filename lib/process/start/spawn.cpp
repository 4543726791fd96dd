// SPDX-License-Identifier: Apache-2.0
#include "process/start/spawn.hpp"

#include "base/blocked_signals.hpp"
#include "process/start/exec_search.hpp"
#include "process/values/memory_policy.hpp"

#include <array>
#include <cerrno>
#include <optional>
#include <vector>

#include <fcntl.h>
#include <linux/close_range.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

namespace muster {
namespace {

constexpr std::size_t kChildStackBytes = std::size_t{64} * 1024;
constexpr std::size_t kFirstLineBytes = 128;
constexpr int kExecFailed = 127;
constexpr int kFdsClosedByHandMax = 4096;  // on kernels without close_range (before 5.11)

enum class Step { none, death_signal, streams, cpus, exec };

// All data that the child needs, prepared in advance because the child may only make system calls.
struct Prepared {
  pid_t parent = 0;
  ChildStreams streams;
  sigset_t mask{};
  bool default_pipe_signal = true;
  bool default_file_size_signal = true;
  bool traceable = false;
  std::optional<rlimit> descriptors;
  const CpuSet* cpus = nullptr;
  MemoryPolicy memory;
  std::vector<const char*> paths;
  std::vector<char*> argv;  // preceded by one free slot, for a shell
  std::vector<char*> environment;
  // The child's result. The child can write it here because it shares our memory.
  Step failed = Step::none;
  int errno_value = 0;
  std::size_t path_index = 0;
};

#define MUSTER_CHILD_SIDE __attribute__((no_sanitize("address", "undefined", "thread")))

MUSTER_CHILD_SIDE int give_up(Prepared& job, Step step) {
  job.failed = step;
  job.errno_value = errno;
  ::_exit(kExecFailed);
}

MUSTER_CHILD_SIDE void close_the_rest() {
  if (::syscall(SYS_close_range, 3U, ~0U, CLOSE_RANGE_CLOEXEC) == 0) {
    return;
  }
  for (int fd = 3; fd < kFdsClosedByHandMax; ++fd) {
    ::fcntl(fd, F_SETFD, FD_CLOEXEC);
  }
}

MUSTER_CHILD_SIDE bool set_streams(const ChildStreams& streams) {
  return (streams.in < 0 || ::dup2(streams.in, 0) >= 0) &&
         (streams.out < 0 || ::dup2(streams.out, 1) >= 0) &&
         (streams.err < 0 || ::dup2(streams.err, 2) >= 0);
}

// Bind before exec, so that the program's first page and thread are already placed correctly. If
// the kernel refuses the memory policy, continue without it: by default the kernel allocates memory
// near the requesting CPU.
MUSTER_CHILD_SIDE bool bind_to(const CpuSet& cpus, const MemoryPolicy& memory) {
  if (cpus.empty()) {
    return true;
  }
  if (!memory.nodes.empty()) {
    ::syscall(SYS_set_mempolicy, memory.mode, memory.nodes.data(), memory.bits);
  }
  const auto& words = cpus.words();
  return ::syscall(SYS_sched_setaffinity, 0, words.size() * sizeof(words[0]), words.data()) == 0;
}

// Treats a file with a NUL in its first line as a binary, as shells do. An unreadable file also
// counts as a binary, because the shell could not read it either.
MUSTER_CHILD_SIDE bool is_script(const char* path) {
  std::array<char, kFirstLineBytes> head;
  const int fd = ::open(path, O_RDONLY | O_CLOEXEC);
  const ssize_t count = fd < 0 ? -1 : ::read(fd, head.data(), head.size());
  ::close(fd);
  for (ssize_t i = 0; i < count && head.data()[i] != '\n'; ++i) {
    if (head.data()[i] == '\0') {
      return false;
    }
  }
  return count >= 0;
}

// Like execvp: runs a script without "#!" with the shell, and continues with the next PATH entry if
// the program is not in the current entry. Remembers EACCES, which is more informative than a later
// ENOENT.
MUSTER_CHILD_SIDE void exec_first(Prepared& job) {
  int denied = 0;
  std::size_t denied_index = 0;
  char** const argv = job.argv.data() + 1;
  for (job.path_index = 0; job.path_index < job.paths.size(); ++job.path_index) {
    char* const path = const_cast<char*>(job.paths[job.path_index]);
    ::execve(path, argv, job.environment.data());
    if (errno == ENOEXEC) {
      if (is_script(path)) {
        static char shell[] = "/bin/sh";
        argv[-1] = shell;
        argv[0] = path;
        ::execve(shell, argv - 1, job.environment.data());
      } else {
        errno = ENOEXEC;
      }
      return;
    }
    if (errno == EACCES) {
      denied = errno;
      denied_index = job.path_index;
    } else if (errno != ENOENT && errno != ENOTDIR && errno != ESTALE && errno != ENODEV) {
      return;
    }
  }
  job.path_index = denied != 0 ? denied_index : job.paths.size() - 1;
  errno = denied != 0 ? denied : errno;
}

MUSTER_CHILD_SIDE int child_main(void* argument) {
  Prepared& job = *static_cast<Prepared*>(argument);
  // The worker gets a separate session and group: signals are sent to the group, and terminal
  // signals do not reach the worker.
  ::setsid();
  // The order matters: if the agent dies before the prctl, the child gets no signal, but getppid()
  // changes.
  if (::prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || ::getppid() != job.parent) {
    give_up(job, Step::death_signal);  // the agent died before the signal was set
  }
  if (job.default_pipe_signal) {
    static_cast<void>(::signal(SIGPIPE, SIG_DFL));
  }
  if (job.default_file_size_signal) {
    static_cast<void>(::signal(SIGXFSZ, SIG_DFL));
  }
  // With Yama's ptrace_scope 1, a tracer must be an ancestor. This lets all descendants of the
  // agent trace the worker. Kernels without Yama reject the call and do not need it.
  if (job.traceable) {
    ::prctl(PR_SET_PTRACER, job.parent, 0, 0, 0);
  }
  if (!set_streams(job.streams)) {
    give_up(job, Step::streams);
  }
  if (!bind_to(*job.cpus, job.memory)) {
    give_up(job, Step::cpus);  // the CPUs were removed after they were checked
  }
  close_the_rest();
  if (job.descriptors) {
    ::setrlimit(RLIMIT_NOFILE, &*job.descriptors);
  }
  // Unblock signals last: pending ones are delivered here and handled as they would be after exec.
  ::pthread_sigmask(SIG_SETMASK, &job.mask, nullptr);
  exec_first(job);
  return give_up(job, Step::exec);
}

std::vector<char*> pointers(const std::vector<std::string>& strings, std::size_t free_slots) {
  std::vector<char*> out(free_slots, nullptr);
  out.reserve(free_slots + strings.size() + 1);
  for (const auto& string : strings) {
    out.push_back(const_cast<char*>(string.c_str()));  // exec does not modify them
  }
  out.push_back(nullptr);
  return out;
}

// When clone returns, the child has called exec or exited, so it no longer uses our memory or
// descriptors. All signals stay blocked until then, because the child shares our memory.
pid_t clone_child(Prepared& job) {
  alignas(16) static char stack[kChildStackBytes];
  const BlockedSignals blocked;
  // CLONE_VFORK: we sleep until the child has called exec or exited. The stack is then free again,
  // and the result is in `job`. Unlike fork() in a large launcher, this copies no page tables.
  return ::clone(child_main, stack + sizeof(stack), CLONE_VM | CLONE_VFORK | SIGCHLD, &job);
}

Error why_failed(const Prepared& job, const ProcessSpec& spec) {
  switch (job.failed) {
    case Step::death_signal:
      return system_error("cannot set a worker's parent-death signal", job.errno_value);
    case Step::streams:
      return system_error("cannot set a worker's standard streams", job.errno_value);
    case Step::cpus:
      return system_error("cannot bind a worker to CPUs " + spec.cpus.describe() +
                              " (were they removed after the launch? Try --numa-binding=none)",
                          job.errno_value);
    case Step::exec:
    case Step::none:
      break;
  }
  return exec_error(spec.argv[0], job.paths[job.path_index], job.errno_value);
}

}  // namespace

Result<pid_t> spawn_process(const ProcessSpec& spec,
                            const ChildStreams& streams,
                            const InheritedState& inherited,
                            bool traceable) {
  if (spec.argv.empty() || spec.argv[0].empty()) {
    return failure(Errc::not_found, "cannot start '': no program name given");
  }
  const auto paths = program_paths(spec.argv[0], spec.environment);
  Prepared job;
  job.parent = ::getpid();
  job.streams = streams;
  job.traceable = traceable;
  job.mask = inherited.mask;
  job.descriptors = inherited.descriptors;
  job.default_pipe_signal = sigismember(&inherited.ignored, SIGPIPE) == 0;
  job.default_file_size_signal = sigismember(&inherited.ignored, SIGXFSZ) == 0;
  job.cpus = &spec.cpus;
  job.memory = memory_policy(spec.memory);
  for (const auto& path : paths) {
    job.paths.push_back(path.c_str());
  }
  job.argv = pointers(spec.argv, 1);
  job.environment = pointers(spec.environment, 0);
  const pid_t pid = clone_child(job);
  if (pid < 0) {
    return std::unexpected(system_error("cannot start a worker", errno));
  }
  if (job.failed != Step::none) {
    while (::waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
    }
    return std::unexpected(why_failed(job, spec));
  }
  return pid;
}

}  // namespace muster
