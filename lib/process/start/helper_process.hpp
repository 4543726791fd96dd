// SPDX-License-Identifier: Apache-2.0
// HelperProcess: runs a small program beside the workers (py-spy, eu-stack, munge) and collects
// what it prints, bounded in time and size. It is no worker: it gets none of their signals, and the
// runner reaps it as it does orphans. Killed when the object goes. Lives on the loop's thread,
// which must have a LinuxRunner; resource.
#pragma once

#include "base/error.hpp"
#include "base/time.hpp"

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace asio {
class io_context;
}

namespace muster {

struct HelperSpec {
  std::vector<std::string> argv;         // argv[0] without a slash is searched in PATH
  std::vector<std::string> environment;  // "NAME=value"; RANK, a worker's, is left out
  std::string input{};                   // what it reads from its standard input
  bool with_errors = false;              // what it says to its standard error is taken, too
  Duration timeout{};                    // after it the program is killed
  std::size_t bytes_max = 0;             // and so it is when it has printed more
};

class HelperProcess {
 public:
  // What it printed, though it may have been killed then; from the loop, once.
  using Done = std::function<void(std::string output)>;

  // Errors: not_found (no such program), not_possible, system.
  [[nodiscard]] static Result<std::unique_ptr<HelperProcess>> start(asio::io_context& loop,
                                                                    const HelperSpec& spec,
                                                                    Done done);
  ~HelperProcess();
  HelperProcess(const HelperProcess&) = delete;
  HelperProcess& operator=(const HelperProcess&) = delete;

 private:
  struct Impl;

  explicit HelperProcess(std::shared_ptr<Impl> impl);

  std::shared_ptr<Impl> impl_;
};

}  // namespace muster
