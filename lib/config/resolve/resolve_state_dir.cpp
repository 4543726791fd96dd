// SPDX-License-Identifier: Apache-2.0
// Where a node records the rounds that it accepts. No folder is made here.
#include "config/resolve/resolution.hpp"

#include <string>

namespace muster {
namespace {

// By the XDG base directory specification, which tells programs to pass over relative paths.
std::string state_folder(const Environ& environ) {
  const std::string state = environ.get("XDG_STATE_HOME").value_or("");
  const std::string home = environ.get("HOME").value_or("");
  if (state.starts_with('/')) {
    return state + "/muster";
  }
  return home.starts_with('/') ? home + "/.local/state/muster" : "";
}

}  // namespace

Result<void> resolve_state_dir(const Resolution& r) {
  const std::string& given = r.layers.text(OptionId::state_dir);
  std::string& folder = r.config().state_dir;
  if (!many_nodes(r.config())) {
    r.set_origin(OptionId::state_dir, "one node records nothing");
  } else if (given.empty()) {
    folder = state_folder(r.environ);
    r.set_origin(OptionId::state_dir, folder.empty() ? "HOME is not set" : "your home");
  } else if (given != "none") {
    if (!given.starts_with('/')) {
      return r.layers.refuse(OptionId::state_dir, "must be an absolute path, or none");
    }
    folder = given;
  }
  return {};
}

}  // namespace muster
