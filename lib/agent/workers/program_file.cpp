// SPDX-License-Identifier: Apache-2.0
#include "agent/workers/program_file.hpp"

#include <cerrno>
#include <variant>

#include <sys/stat.h>

namespace muster {

ProgramFile::ProgramFile(const Program& program) {
  const bool is_path = program.kind == ProgramKind::python_script ||
                       (program.kind == ProgramKind::executable && program.name.contains('/'));
  path_ = is_path ? program.name : "";
}

// Not the inode, which some file systems change while a file stays the same.
std::optional<ProgramFile::Identity> ProgramFile::identity(const std::string& path) {
  struct stat facts {};

  if (::stat(path.c_str(), &facts) == 0) {
    return Identity{facts.st_size, facts.st_mtim.tv_sec, facts.st_mtim.tv_nsec};
  }
  return errno == ENOENT ? std::optional(Identity{}) : std::nullopt;
}

void ProgramFile::take(const JobEvent& event) {
  if (std::holds_alternative<event::RoundBegun>(event.what)) {
    at_start_ = identity(path_);
  }
}

std::string ProgramFile::change() const {
  const auto now = identity(path_);
  if (path_.empty() || !now || !at_start_ || *now == *at_start_) {
    return {};
  }
  return path_ + " has changed since the workers were started";
}

}  // namespace muster
