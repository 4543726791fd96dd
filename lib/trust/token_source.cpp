// SPDX-License-Identifier: Apache-2.0
#include "trust/token_source.hpp"

#include <optional>

namespace muster {
namespace {

// The XDG base directory specification requires programs to ignore relative paths.
std::string config_folder(const Environ& environ) {
  const std::string config = environ.get("XDG_CONFIG_HOME").value_or("");
  if (config.starts_with('/')) {
    return config;
  }
  const std::string home = environ.get("HOME").value_or("");
  return home.starts_with('/') ? home + "/.config" : "";
}

TokenSource home_token(const Environ& environ) {
  const std::string folder = config_folder(environ);
  TokenSource home = folder.empty() ? TokenSource{TokenFrom::nowhere, "", "HOME is not set"}
                                    : TokenSource{TokenFrom::home, folder + "/muster/token", ""};
  if (environ.get("KUBERNETES_SERVICE_HOST")) {
    home.why_not_made = "a pod's home directory is not shared";
  }
  return home;
}

}  // namespace

TokenSource token_file_source(std::string_view given) {
  constexpr std::string_view kShared = ",shared";
  TokenSource file{TokenFrom::file, "", ""};
  file.is_shared = given.ends_with(kShared);
  given.remove_suffix(file.is_shared ? kShared.size() : 0);
  file.path = given;
  return file;
}

TokenSource choose_token_source(const TokenWish& wish, const Environ& environ) {
  if (wish.off) {
    TokenSource off{TokenFrom::nowhere, "", "--token=none"};
    off.is_off = true;
    return off;
  }
  if (!wish.file.empty()) {
    return token_file_source(wish.file);
  }
  if (wish.munge) {
    TokenSource munge{TokenFrom::nowhere, "", "--token=munge"};
    munge.munge = MungeUse::demanded;
    return munge;
  }
  TokenSource home = home_token(environ);
  home.is_required = wish.required;
  home.munge = wish.has_munge ? MungeUse::wanted : MungeUse::none;
  return home;
}

std::string describe(const TokenSource& source) {
  if (source.munge == MungeUse::demanded) {
    return "MUNGE";
  }
  const std::string file = source.from == TokenFrom::nowhere ? "none" : source.path;
  return source.munge == MungeUse::wanted ? "MUNGE, else " + file : file;
}

}  // namespace muster
