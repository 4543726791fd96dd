// SPDX-License-Identifier: Apache-2.0
#include "agent/failures/judgement.hpp"

#include <array>

namespace muster {
namespace {

constexpr std::array kCauses{Cause::unknown,
                             Cause::bug,
                             Cause::usage,
                             Cause::import,
                             Cause::syntax,
                             Cause::host_memory,
                             Cause::gpu_memory,
                             Cause::hardware,
                             Cause::lost_peer,
                             Cause::numerics,
                             Cause::assertion,
                             Cause::exit_code,
                             Cause::signal,
                             Cause::network,
                             Cause::filesystem,
                             Cause::preemption};
constexpr std::array kAdvice{Advice::restart, Advice::stop, Advice::bad_node, Advice::requeue};

template <class Known>
typename Known::value_type named(std::string_view name, const Known& known) {
  for (const auto each : known) {
    if (name_of(each) == name) {
      return each;
    }
  }
  return known.front();
}

}  // namespace

std::string_view name_of(Cause cause) {
  switch (cause) {
    case Cause::unknown:
      return "unknown";
    case Cause::bug:
      return "bug";
    case Cause::usage:
      return "usage";
    case Cause::import:
      return "import";
    case Cause::syntax:
      return "syntax";
    case Cause::host_memory:
      return "host_memory";
    case Cause::gpu_memory:
      return "gpu_memory";
    case Cause::hardware:
      return "hardware";
    case Cause::lost_peer:
      return "lost_peer";
    case Cause::numerics:
      return "numerics";
    case Cause::assertion:
      return "assertion";
    case Cause::exit_code:
      return "exit_code";
    case Cause::signal:
      return "signal";
    case Cause::network:
      return "network";
    case Cause::filesystem:
      return "filesystem";
    case Cause::preemption:
      return "preemption";
  }
  return "unknown";
}

bool may_be_of_node(Cause cause) {
  switch (cause) {
    case Cause::unknown:
    case Cause::host_memory:
    case Cause::gpu_memory:
    case Cause::hardware:
    case Cause::signal:
    case Cause::network:
    case Cause::filesystem:
      return true;
    case Cause::bug:
    case Cause::usage:
    case Cause::import:
    case Cause::syntax:
    case Cause::lost_peer:
    case Cause::numerics:
    case Cause::assertion:
    case Cause::exit_code:
    case Cause::preemption:
      return false;
  }
  return false;
}

std::string_view name_of(Advice advice) {
  switch (advice) {
    case Advice::restart:
      return "restart";
    case Advice::stop:
      return "stop";
    case Advice::bad_node:
      return "bad_node";
    case Advice::requeue:
      return "requeue";
  }
  return "restart";
}

Cause cause_named(std::string_view name) {
  return named(name, kCauses);
}

Advice advice_named(std::string_view name) {
  return named(name, kAdvice);
}

}  // namespace muster
