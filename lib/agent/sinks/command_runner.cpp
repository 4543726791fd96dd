// SPDX-License-Identifier: Apache-2.0
#include "agent/sinks/command_runner.hpp"

#include <asio/io_context.hpp>
#include <asio/post.hpp>

#include <utility>

namespace muster {

Result<void> CommandRunner::run(const std::string& input, const std::function<void()>& ended) {
  const std::uint64_t number = next_++;
  const HelperSpec spec{.argv = {"/bin/sh", "-c", command_},
                        .environment = environment_,
                        .input = input,
                        .timeout = kEventCommandTimeout};
  auto process = HelperProcess::start(
      loop_, spec, [this, number, ended](const std::string& /*output*/) { end(number, ended); });
  MUSTER_RETURN_IF_ERROR(process);
  started_((*process)->pid());
  running_.emplace(number, std::move(*process));
  return {};
}

// The object must not be destroyed by its own callback.
void CommandRunner::end(std::uint64_t number, const std::function<void()>& ended) {
  auto gone = running_.extract(number);
  asio::post(loop_, [process = std::shared_ptr<HelperProcess>(std::move(gone.mapped()))] {});
  const auto call = ended;  // `ended` may belong to the object that is destroyed
  call();
}

}  // namespace muster
