// SPDX-License-Identifier: Apache-2.0
#include "agent/watch/port_trap.hpp"

#include "base/printable.hpp"
#include "base/text.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <vector>

namespace muster {
namespace {

constexpr std::string_view kListens = "0A";
constexpr std::string_view kConnected = "01";

struct SocketRow {
  std::string own;
  std::string other;
  std::string state;
  std::string inode;
};

// "  0: 0100007F:3039 00000000:0000 0A ...": local address, remote address and state in
// hexadecimal. The tenth word is the inode.
std::optional<SocketRow> row_of(std::string_view line) {
  std::vector<std::string> words = split(trim(line), ' ');
  std::erase(words, "");
  const bool is_row = words.size() >= 4 && words[0].ends_with(':');
  return is_row ? std::optional(
                      SocketRow{words[1], words[2], words[3], words.size() > 9 ? words[9] : ""})
                : std::nullopt;
}

std::string in_hexadecimal(std::uint16_t port) {
  return fmt::format(":{:04X}", port);
}

}  // namespace

std::optional<std::uint16_t> wrong_port(const StoreFacts& store, const WorkerEnvironment& worker) {
  const auto text = worker.variables.find("MASTER_PORT");
  const auto served = worker.variables.find("TORCHELASTIC_USE_AGENT_STORE");
  if (text == worker.variables.end() || served == worker.variables.end() ||
      served->second != "True") {
    return std::nullopt;
  }
  std::uint16_t port = 0;
  const char* const end = text->second.data() + text->second.size();
  const auto [stop, error] = std::from_chars(text->second.data(), end, port);
  if (error != std::errc{} || stop != end || port == 0 || port == store.port) {
    return std::nullopt;
  }
  return port;
}

bool listens_in(std::string_view proc_net_tcp, std::uint16_t port) {
  return std::ranges::any_of(split(proc_net_tcp, '\n'), [port](const std::string& line) {
    const auto row = row_of(line);
    return row && row->state == kListens && row->own.ends_with(in_hexadecimal(port));
  });
}

bool connects_in(std::string_view proc_net_tcp,
                 std::uint16_t port,
                 const std::set<std::string, std::less<>>& own) {
  return std::ranges::any_of(split(proc_net_tcp, '\n'), [&](const std::string& line) {
    const auto row = row_of(line);
    return row && row->state == kConnected && row->other.ends_with(in_hexadecimal(port)) &&
           !own.contains(row->inode);
  });
}

std::string describe_trap(const StoreFacts& store,
                          const WorkerEnvironment& worker,
                          std::uint16_t wrong) {
  return fmt::format(
      "process {} ({}) set MASTER_PORT to {}, where no store is listening; the workers' store is "
      "at "
      "{}:{}, and {} for {} s. If the program hangs in init_process_group, remove the line that "
      "sets MASTER_PORT, or run muster with TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1: rank 0 then "
      "serves the store itself",
      worker.pid,
      printable(worker.command),
      wrong,
      store.address,
      store.port,
      store.is_here ? "no client has connected to it"
                    : "no process on this host has been connected to it",
      store.seconds);
}

}  // namespace muster
