// SPDX-License-Identifier: Apache-2.0
// bench-floor: the lower bound for a launcher, and the workers of the measurements. It uses only
// libc and none of our libraries, to keep its overhead minimal.
//   bench-floor spawn N PROGRAM       vfork and exec N times, wait for all
//   bench-floor crash FILE TIMES SEED worker: records its start; rank 0 dies in the first rounds
//   bench-floor idle FILE             worker: records its start and sleeps until a signal
//   bench-floor member FILE           the same in a multi-node job: records its pid and rank
//   bench-floor flood BYTES           worker: writes numbered lines of 100 bytes to stdout
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

namespace {

constexpr int kUsage = 2;
constexpr size_t kLine = 100;
constexpr size_t kBlock = 320 * kLine;  // 32,000 bytes in one write

long long nanoseconds() {
  timespec now;
  static_cast<void>(clock_gettime(CLOCK_MONOTONIC, &now));
  return now.tv_sec * 1'000'000'000LL + now.tv_nsec;
}

const char* variable(const char* name) {
  const size_t size = strlen(name);
  for (char** entry = environ; *entry != nullptr; ++entry) {
    if (strncmp(*entry, name, size) == 0 && (*entry)[size] == '=') {
      return *entry + size + 1;
    }
  }
  return "0";
}

int spawn(int count, char** argv) {
  for (int i = 0; i < count; ++i) {
    // This measures vfork itself. The child does nothing but exec.
    // NOLINTNEXTLINE(bugprone-unsafe-functions,clang-analyzer-security.insecureAPI.vfork)
    const pid_t pid = vfork();
    if (pid == 0) {
      execve(argv[0], argv, environ);
      _exit(127);
    }
    if (pid < 0) {
      return 1;
    }
  }
  int failures = 0;
  int status = 0;
  while (wait(&status) > 0) {
    failures += status != 0 ? 1 : 0;
  }
  return failures != 0 ? 1 : 0;
}

// Writes a line with one write() in append mode, so that lines from different workers are not
// interleaved.
void append(const char* file, const char* line, int size) {
  const int fd = open(file, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644);
  if (fd < 0 || write(fd, line, static_cast<size_t>(size)) != size) {
    _exit(1);
  }
  close(fd);
}

void note(const char* file, const char* event) {
  char line[128];
  const auto now = nanoseconds();
  const int size = snprintf(line,
                            sizeof line,
                            "%s %s %s %lld\n",
                            event,
                            variable("TORCHELASTIC_RESTART_COUNT"),
                            variable("LOCAL_RANK"),
                            now);
  append(file, line, size);
}

int member(const char* file) {
  char line[128];
  const auto now = nanoseconds();
  const int size =
      snprintf(line, sizeof line, "member %d %s %lld\n", getpid(), variable("RANK"), now);
  append(file, line, size);
  pause();
  return 0;
}

void wait_milliseconds(long milliseconds) {
  timespec left{milliseconds / 1000, milliseconds % 1000 * 1'000'000};
  nanosleep(&left, nullptr);
}

// Delays the death of rank 0 by a different time in each attempt (in steps of 37 ms within 100 ms),
// so that deaths do not align with any polling interval.
int crash(const char* file, int times, int seed) {
  note(file, "start");
  const int attempt = atoi(variable("TORCHELASTIC_RESTART_COUNT"));
  if (attempt >= times) {
    return 0;
  }
  if (strcmp(variable("LOCAL_RANK"), "0") != 0) {
    for (;;) {
      pause();
    }
  }
  wait_milliseconds(250 + (attempt * 37 + seed * 13) % 100);
  note(file, "crash");
  return 1 + attempt % 100;  // vary the code: repeated equal codes look like a startup failure
}

int idle(const char* file) {
  note(file, "start");
  pause();
  return 0;
}

int flood(long long bytes) {
  static char block[kBlock];
  long long number = 0;
  for (long long left = bytes; left > 0;) {
    for (size_t at = 0; at < kBlock; at += kLine) {
      memset(block + at, '.', kLine);
      const int digits = snprintf(block + at, kLine, "line %012lld", number++);
      block[at + static_cast<size_t>(digits)] = ' ';
      block[at + kLine - 1] = '\n';
    }
    const size_t size = left < static_cast<long long>(kBlock) ? static_cast<size_t>(left) : kBlock;
    for (size_t done = 0; done < size;) {
      const ssize_t written = write(1, block + done, size - done);
      if (written < 0) {
        return 1;
      }
      done += static_cast<size_t>(written);
    }
    left -= static_cast<long long>(size);
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const char* mode = argc > 2 ? argv[1] : "";
  if (strcmp(mode, "spawn") == 0 && argc > 3) {
    return spawn(atoi(argv[2]), argv + 3);
  }
  if (strcmp(mode, "crash") == 0 && argc > 4) {
    return crash(argv[2], atoi(argv[3]), atoi(argv[4]));
  }
  if (strcmp(mode, "idle") == 0) {
    return idle(argv[2]);
  }
  if (strcmp(mode, "member") == 0) {
    return member(argv[2]);
  }
  if (strcmp(mode, "flood") == 0) {
    return flood(atoll(argv[2]));
  }
  static_cast<void>(fprintf(stderr, "usage: bench-floor spawn|crash|idle|member|flood …\n"));
  return kUsage;
}
