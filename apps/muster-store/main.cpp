// SPDX-License-Identifier: Apache-2.0
// muster-store: muster's store server as a standalone program.
#include "base/error.hpp"
#include "base/logger.hpp"
#include "base/stream_writer.hpp"
#include "io/user_admission.hpp"
#include "options.hpp"
#include "rendezvous/server/server.hpp"

#include <asio/io_context.hpp>
#include <asio/signal_set.hpp>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <exception>
#include <string>

#include <malloc.h>
#include <sys/resource.h>
#include <unistd.h>

namespace muster {
namespace {

constexpr int kExitUsage = 2;
constexpr int kExitUnreachable = 69;
constexpr int kExitInternal = 70;

int fail(const Error& error) {
  log_error(error.message);
  if (error.code == Errc::usage) {
    return kExitUsage;
  }
  return error.code == Errc::internal ? kExitInternal : kExitUnreachable;
}

// Each session needs a file descriptor, so raise the soft limit to the hard limit.
void raise_descriptor_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) == 0) {
    limit.rlim_cur = limit.rlim_max;
    static_cast<void>(::setrlimit(RLIMIT_NOFILE, &limit));
  }
}

// Returns the memory of large values to the system when they are deleted. By default, malloc's
// dynamic threshold would soon place them on the heap, where small keys prevent trimming.
void return_large_blocks() {
  // There is only one thread. NOLINTNEXTLINE(concurrency-mt-unsafe)
  static_cast<void>(::mallopt(M_MMAP_THRESHOLD, 512 * 1024));
}

// Writes a temporary file and renames it, so that a reader never sees a partial number.
Result<void> write_port_file(const std::string& path, std::uint16_t port) {
  const std::string aside = path + ".tmp";
  std::FILE* file = std::fopen(aside.c_str(), "we");
  if (file == nullptr) {
    return std::unexpected(system_error("cannot write the port file " + path, errno));
  }
  const bool written = std::fputs((std::to_string(port) + "\n").c_str(), file) >= 0;
  const bool closed = std::fclose(file) == 0;
  if (!written || !closed || std::rename(aside.c_str(), path.c_str()) != 0) {
    return std::unexpected(system_error("cannot write the port file " + path, errno));
  }
  return {};
}

// An unread standard error must not block clients, so a line that does not fit is dropped.
void log_without_waiting(std::string_view line) {
  write_within(STDERR_FILENO, line, Duration::zero());
}

int serve(const StoreOptions& options) {
  const LogTo log_to(log_without_waiting);
  raise_descriptor_limit();
  return_large_blocks();
  asio::io_context loop(1);
  asio::signal_set signals(loop, SIGTERM, SIGINT);
  signals.async_wait([&loop](const asio::error_code&, int) { loop.stop(); });
  UserAdmission admission(options.user.value_or(::geteuid()));
  admission.set_notice([](const std::string& text) { log_warning(text); });
  auto server = StoreServer::open(loop, options.bind, options.port);
  if (!server) {
    return fail(server.error());
  }
  if (!options.open) {
    (*server)->set_admission(&admission);
  }
  (*server)->set_notice([](const std::string& text) { log_warning(text); });
  if (!options.port_file.empty()) {
    if (auto written = write_port_file(options.port_file, (*server)->port()); !written) {
      return fail(written.error());
    }
  }
  loop.run();
  return 0;
}

int run(int argc, const char* const* argv) {
  const auto options = parse_store_options(argc, argv);
  if (!options) {
    return fail(options.error());
  }
  if (options->print) {
    const bool printed = std::fputs(options->print->c_str(), stdout) >= 0;
    if (!printed || std::fflush(stdout) != 0) {
      logger().print("cannot write standard output: " + errno_text(errno));
      return kOutputLostCode;
    }
    return 0;
  }
  return serve(*options);
}

}  // namespace
}  // namespace muster

int main(int argc, char** argv) {
  muster::logger().set_program("muster-store");
  try {
    return muster::run(argc, argv);
  } catch (const std::exception& error) {
    muster::logger().print(std::string("internal error: ") + error.what());
    return muster::kExitInternal;
  }
}
