// SPDX-License-Identifier: Apache-2.0
// The directory in which a node records the rounds that it accepts, and the file that lists bad
// nodes. They are not created here.
#include "config/resolve/resolution.hpp"

#include <string>

namespace muster {
namespace {

// The XDG base directory specification requires programs to ignore relative paths.
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
    r.set_origin(OptionId::state_dir, "not needed for one node");
  } else if (given.empty()) {
    folder = state_folder(r.environ);
    r.set_origin(OptionId::state_dir, folder.empty() ? "HOME is not set" : "home directory");
  } else if (given != "none") {
    if (!given.starts_with('/')) {
      return r.layers.refuse(OptionId::state_dir, "must be an absolute path, or none");
    }
    folder = given;
  }
  r.config().node_history = many_nodes(r.config()) ? r.layers.text(OptionId::node_history) : "";
  return {};
}

}  // namespace muster
