// SPDX-License-Identifier: Apache-2.0
#include "plan/log_layout.hpp"

#include <fmt/core.h>

#include <algorithm>

namespace muster {

std::string run_dir_name(std::string_view rdzv_id, std::string_view random) {
  std::string name = fmt::format("{}_{}", rdzv_id, random);
  std::ranges::replace(name, '/', '_');
  return name;
}

std::string attempt_dir(std::string_view run_dir, int attempt) {
  return fmt::format("{}/attempt_{}", run_dir, attempt);
}

std::string worker_dir(std::string_view run_dir, int attempt, int local_rank, int replacement) {
  const std::string first = fmt::format("{}/{}", attempt_dir(run_dir, attempt), local_rank);
  return replacement == 0 ? first : fmt::format("{}.{}", first, replacement);
}

std::string spare_dir(std::string_view run_dir, int attempt, int number) {
  return fmt::format("{}/spare.{}", attempt_dir(run_dir, attempt), number);
}

}  // namespace muster
