// SPDX-License-Identifier: Apache-2.0
// The command-line options. Value type.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

namespace digits {

struct Options {
  std::size_t epochs = 12;
  std::size_t batch_size = 64;     // images per step, over all workers
  std::size_t micro_batches = 4;   // parts of a batch; a multiple of the number of workers
  std::size_t bucket_bytes = 0;    // size of a gradient bucket; 0: the library's default
  std::size_t crash_in_epoch = 0;  // 0: never
  float learning_rate = 0.05F;
  bool on_gpu = false;
  std::string checkpoint;  // empty: none
  std::string data = DIGITS_DATA;
};

// Nothing if the options are invalid, or for --help: the message has been printed and `exit_code`
// is set.
[[nodiscard]] std::optional<Options> parse_options(int argc, char** argv, int& exit_code);

}  // namespace digits
