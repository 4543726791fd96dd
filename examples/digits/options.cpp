// SPDX-License-Identifier: Apache-2.0
#include "options.hpp"

#include <array>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <string_view>

#include <getopt.h>

namespace digits {
namespace {

constexpr int kExitUsage = 2;

constexpr const char* kHelp =
    "muster-digits: learns handwritten digits with several workers\n"
    "  muster --nproc-per-node=2 muster-digits [OPTION…]\n\n"
    "  --epochs N            (12)\n"
    "  --batch-size N        images per step, over all workers (64)\n"
    "  --micro-batches N     parts of a batch; a multiple of the number of workers (4)\n"
    "  --bucket-bytes N      bytes of gradients sent together (the library's default)\n"
    "  --learning-rate X     (0.05)\n"
    "  --device cpu|cuda     where to sum gradients (cpu)\n"
    "  --checkpoint FILE     saved after each epoch, resumed from at start\n"
    "  --crash-in-epoch N    the last worker kills itself in this epoch of the first attempt\n"
    "  --data FILE           .csv or .csv.gz\n"
    "The result has the same bits for every number of workers and every bucket size.\n";

template <class Number>
bool read(const char* text, Number& into) {
  const char* const end = text + std::strlen(text);
  const auto [stop, error] = std::from_chars(text, end, into);
  return error == std::errc{} && stop == end;
}

bool read_device(std::string_view word, bool& on_gpu) {
  on_gpu = word == "cuda";
  return on_gpu || word == "cpu";
}

bool take(int option, const char* value, Options& into) {
  switch (option) {
    case 'e':
      return read(value, into.epochs);
    case 'b':
      return read(value, into.batch_size);
    case 'm':
      return read(value, into.micro_batches);
    case 'u':
      return read(value, into.bucket_bytes);
    case 'l':
      return read(value, into.learning_rate);
    case 'd':
      return read_device(value, into.on_gpu);
    case 'k':
      return read(value, into.crash_in_epoch);
    case 'c':
      into.checkpoint = value;
      return true;
    case 'f':
      into.data = value;
      return true;
    default:
      return false;
  }
}

void complain(const std::string& text) {
  static_cast<void>(std::fputs(("muster-digits: " + text + "\n").c_str(), stderr));
}

bool fit(const Options& options) {
  return options.micro_batches > 0 && options.batch_size >= options.micro_batches &&
         options.batch_size % options.micro_batches == 0;
}

}  // namespace

std::optional<Options> parse_options(int argc, char** argv, int& exit_code) {
  static constexpr std::array<option, 11> kKnown{
      {{"epochs", required_argument, nullptr, 'e'},
       {"batch-size", required_argument, nullptr, 'b'},
       {"micro-batches", required_argument, nullptr, 'm'},
       {"bucket-bytes", required_argument, nullptr, 'u'},
       {"learning-rate", required_argument, nullptr, 'l'},
       {"device", required_argument, nullptr, 'd'},
       {"crash-in-epoch", required_argument, nullptr, 'k'},
       {"checkpoint", required_argument, nullptr, 'c'},
       {"data", required_argument, nullptr, 'f'},
       {"help", no_argument, nullptr, 'h'},
       {}}};
  Options out;
  exit_code = kExitUsage;
  // There is only one thread so far. NOLINTNEXTLINE(concurrency-mt-unsafe)
  for (int c = 0; (c = getopt_long(argc, argv, "", kKnown.data(), nullptr)) != -1;) {
    if (c == 'h') {
      exit_code = std::fputs(kHelp, stdout) < 0 ? 1 : 0;
      return std::nullopt;
    }
    if (!take(c, optarg, out)) {
      if (c != '?') {  // else getopt_long has printed the error
        complain(std::string("invalid value '") + optarg + "'; see --help");
      }
      return std::nullopt;
    }
  }
  if (optind < argc || !fit(out)) {
    complain(optind < argc ? "takes options only; see --help"
                           : "--micro-batches must divide --batch-size");
    return std::nullopt;
  }
  return out;
}

}  // namespace digits
