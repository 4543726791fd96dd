// SPDX-License-Identifier: Apache-2.0
#include "remote/working_folder.hpp"

#include <filesystem>
#include <system_error>

namespace muster {

std::string working_folder(const Environ& environ) {
  std::error_code error;
  const std::string logical = environ.get("PWD").value_or("");
  if (logical.starts_with('/') && std::filesystem::equivalent(logical, ".", error)) {
    return logical;
  }
  const auto path = std::filesystem::current_path(error);
  return error ? "/" : path.string();
}

}  // namespace muster
