// SPDX-License-Identifier: Apache-2.0
// Defines glibc functions newer than 2.28 for everything linked into libmuster_collective.so: its
// own code, libstdc++.a and libgcc_eh.a. collective.map hides them from other libraries.
#include "collective/link/old_glibc.hpp"

#include <cstring>

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace old_glibc = muster::collective::old_glibc;

// NOLINTBEGIN(bugprone-reserved-identifier, readability-identifier-naming): glibc's names
extern "C" {

// Before glibc 2.32, libstdc++ always uses atomic reference counts; false has the same effect.
char __libc_single_threaded = 0;

// Before glibc 2.33, these were inline functions in headers. glibc uses the kernel's struct stat.
int stat(const char* path, void* out) {
  return static_cast<int>(syscall(SYS_newfstatat, AT_FDCWD, path, out, 0));
}

int lstat(const char* path, void* out) {
  return static_cast<int>(syscall(SYS_newfstatat, AT_FDCWD, path, out, AT_SYMLINK_NOFOLLOW));
}

int fstat(int fd, void* out) {
  return static_cast<int>(syscall(SYS_fstat, fd, out));
}

int fstat64(int fd, void* out) {
  return fstat(fd, out);
}

pid_t gettid() noexcept {
  return static_cast<pid_t>(syscall(SYS_gettid));
}

std::uint32_t arc4random() {
  std::uint32_t out = 0;
  old_glibc::fill_with_random(&out, sizeof out);
  return out;
}

// Prefer glibc's version if available, because it waits on the given clock.
int pthread_cond_clockwait(pthread_cond_t* condition,
                           pthread_mutex_t* mutex,
                           clockid_t clock,
                           const timespec* until) {
  using Wait = int (*)(pthread_cond_t*, pthread_mutex_t*, clockid_t, const timespec*);
  static const auto wait = reinterpret_cast<Wait>(dlsym(RTLD_DEFAULT, "pthread_cond_clockwait"));
  return wait != nullptr ? wait(condition, mutex, clock, until)
                         : old_glibc::wait_on_clock(*condition, *mutex, clock, *until);
}

#ifdef DLFO_STRUCT_HAS_EH_DBASE  // otherwise libgcc calls dl_iterate_phdr itself
int _dl_find_object(void* address, dl_find_object* out) noexcept {
  old_glibc::LoadedObject object;
  if (!old_glibc::find_object(address, object)) {
    return -1;
  }
  std::memset(out, 0, sizeof *out);
  out->dlfo_map_start = reinterpret_cast<void*>(object.begin);
  out->dlfo_map_end = reinterpret_cast<void*>(object.end);
  out->dlfo_eh_frame = const_cast<void*>(object.unwind_table);
  return 0;
}
#endif

}  // extern "C"
// NOLINTEND(bugprone-reserved-identifier, readability-identifier-naming)
