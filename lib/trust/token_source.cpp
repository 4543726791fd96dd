// SPDX-License-Identifier: Apache-2.0
#include "trust/token_source.hpp"

#include <optional>

namespace muster {
namespace {

// By the XDG base directory specification, which tells programs to pass over relative paths.
std::string config_folder(const Environ& environ) {
  const std::string config = environ.get("XDG_CONFIG_HOME").value_or("");
  if (config.starts_with('/')) {
    return config;
  }
  const std::string home = environ.get("HOME").value_or("");
  return home.starts_with('/') ? home + "/.config" : "";
}

}  // namespace

TokenSource choose_token_source(const TokenWish& wish, const Environ& environ) {
  if (wish.off) {
    return {TokenFrom::nowhere, "", "--token=none"};
  }
  if (!wish.file.empty()) {
    return {TokenFrom::file, std::string(wish.file), ""};
  }
  const std::string folder = config_folder(environ);
  if (folder.empty()) {
    return {TokenFrom::nowhere, "", "HOME is not set"};
  }
  TokenSource home{TokenFrom::home, folder + "/muster/token", ""};
  if (environ.get("KUBERNETES_SERVICE_HOST")) {
    home.why_not_made = "a pod's home folder is its own";
  }
  return home;
}

std::string describe(const TokenSource& source) {
  return source.from == TokenFrom::nowhere ? "none" : source.path;
}

}  // namespace muster
