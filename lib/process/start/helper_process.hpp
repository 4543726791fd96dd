// SPDX-License-Identifier: Apache-2.0
// HelperProcess: runs a small program alongside the workers (py-spy, eu-stack, munge) and collects
// its output, limited in time and size. It is not a worker: it receives none of the workers'
// signals, and the runner reaps it like an orphan. Killed when the object is destroyed. Lives on
// the loop's thread, which must have a LinuxRunner; resource.
#pragma once

#include "base/error.hpp"
#include "base/time.hpp"

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <sys/types.h>

namespace asio {
class io_context;
}

namespace muster {

struct HelperSpec {
  std::vector<std::string> argv;         // argv[0] without a slash is looked up in PATH
  std::vector<std::string> environment;  // "NAME=value"; a worker's RANK is removed
  std::string input{};                   // its standard input
  bool with_errors = false;              // also collect its standard error
  Duration timeout{};                    // the program is killed after this time
  std::size_t bytes_max = 0;  // the program is killed if it prints more; 0 discards its output
};

class HelperProcess {
 public:
  // Called once from the loop, when the program has closed its output or was killed. If the output
  // is discarded, called when the program has exited; processes that it left running are killed.
  using Done = std::function<void(std::string output)>;

  // Errors: not_found (no such program), not_possible, system.
  [[nodiscard]] static Result<std::unique_ptr<HelperProcess>> start(asio::io_context& loop,
                                                                    const HelperSpec& spec,
                                                                    Done done);
  ~HelperProcess();

  [[nodiscard]] pid_t pid() const;

  HelperProcess(const HelperProcess&) = delete;
  HelperProcess& operator=(const HelperProcess&) = delete;

 private:
  struct Impl;

  explicit HelperProcess(std::shared_ptr<Impl> impl);

  std::shared_ptr<Impl> impl_;
};

}  // namespace muster
