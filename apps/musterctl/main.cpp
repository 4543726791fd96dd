// SPDX-License-Identifier: Apache-2.0
// musterctl: inspects and controls jobs; reads stores, failure reports and flight recorders.
#include "base/error.hpp"
#include "base/logger.hpp"
#include "base/printable.hpp"
#include "base/stream_writer.hpp"
#include "commands.hpp"
#include "options.hpp"

#include <cstdio>
#include <exception>
#include <string>

namespace muster {
namespace {

constexpr int kExitUsage = 2;
constexpr int kExitUnreachable = 69;
constexpr int kExitInternal = 70;
constexpr std::size_t kMessageLineBytesMax = 2000;  // messages contain file and host names

void print_error(const std::string& message) {
  log_error(printable_lines(message, kMessageLineBytesMax));
}

int exit_code(Errc code) {
  switch (code) {
    case Errc::usage:
      return kExitUsage;
    case Errc::not_found:
    case Errc::not_possible:
      return kExitNotThere;
    case Errc::internal:
      return kExitInternal;
    case Errc::system:
    case Errc::exhausted:
    case Errc::unreachable:
    case Errc::timed_out:
    case Errc::closed:
    case Errc::protocol:
      break;
  }
  return kExitUnreachable;
}

Result<int> run_command(const ControlOptions& options) {
  switch (options.command) {
    case Command::status:
      return run_status(options);
    case Command::events:
      return run_events(options);
    case Command::timeline:
      return run_timeline(options);
    case Command::top:
      return run_top(options);
    case Command::stacks:
      return run_stacks(options);
    case Command::check:
      return run_check(options);
    case Command::debug:
      return run_debug(options);
    case Command::profile:
      return run_profile(options);
    case Command::drain:
      return run_drain(options);
    case Command::forget:
      return run_forget(options);
    case Command::stop:
      return run_stop(options);
    case Command::url:
      return run_url(options);
    case Command::resolve:
      return run_resolve(options);
    case Command::report:
      return run_report(options);
    case Command::flights:
      return run_flights(options);
    case Command::print:
      print(options.text);
      return 0;
    default:
      return run_store(options);
  }
}

int run(int argc, const char* const* argv) {
  const auto options = parse_control_options(argc, argv);
  const auto code = options ? run_command(*options) : std::unexpected(options.error());
  if (!code) {
    print_error(code.error().message);
    return exit_code(code.error().code);
  }
  if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0) {
    print_error("cannot write standard output");
    return kOutputLostCode;
  }
  return *code;
}

}  // namespace
}  // namespace muster

int main(int argc, char** argv) {
  muster::logger().set_program("musterctl");
  try {
    return muster::run(argc, argv);
  } catch (const std::exception& error) {
    muster::print_error(std::string("internal error: ") + error.what());
    return muster::kExitInternal;
  }
}
