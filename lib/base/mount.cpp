// SPDX-License-Identifier: Apache-2.0
#include "base/mount.hpp"

#include <sys/stat.h>
#include <sys/statvfs.h>

namespace muster {

bool is_noexec_program(const std::string& path) {
  struct stat file {};

  struct statvfs mount {};

  return ::stat(path.c_str(), &file) == 0 && S_ISREG(file.st_mode) &&
         (file.st_mode & (S_IXUSR | S_IXGRP | S_IXOTH)) != 0 &&
         ::statvfs(path.c_str(), &mount) == 0 && (mount.f_flag & ST_NOEXEC) != 0;
}

}  // namespace muster
