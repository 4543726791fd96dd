// SPDX-License-Identifier: Apache-2.0
#include "muster/version.hpp"

#include <fmt/core.h>

namespace muster {

std::string version_text() {
  // Two lines that identify the build, then the features that are built in.
  return fmt::format(
      "muster {}\n"
      "compiler    {} {}, {} build\n"
      "nodes       any number (rendezvous backends static and c10d)\n"
      "store       TCPStore, both dialects (PyTorch up to 2.0, and later)\n"
      "devices     GPUs are counted without linking CUDA libraries\n"
      "names       /etc/hosts and DNS through c-ares; no getaddrinfo\n",
      MUSTER_VERSION,
#ifdef __clang__
      "clang",
      __clang_version__,
#else
      "g++",
      __VERSION__,
#endif
      MUSTER_BUILD_TYPE);
}

std::string version_number() {
  return MUSTER_VERSION;
}

}  // namespace muster
