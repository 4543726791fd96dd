// SPDX-License-Identifier: Apache-2.0
// The source of the secret that the nodes of a job use to authenticate. This step opens no file.
#include "config/resolve/resolution.hpp"
#include "trust/token_source.hpp"

namespace muster {
namespace {

using enum OptionId;

void note_source(const Resolution& r) {
  const TokenSource& source = r.config().token;
  if (!many_nodes(r.config())) {
    r.set_origin(token_file, "not needed for one node");
  } else if (source.munge == MungeUse::wanted) {
    r.set_origin(
        token_file,
        "MUNGE socket " + std::string(kMungeSocket) + "; nodes without MUNGE need the same file");
  } else if (source.from == TokenFrom::nowhere) {
    r.set_origin(token_file, source.why_none);
  } else if (source.from == TokenFrom::home) {
    r.set_origin(token_file,
                 source.why_not_made.empty()
                     ? "home directory; created by the first job that needs it"
                     : "home directory; not created: " + source.why_not_made);
  }
}

}  // namespace

// The error does not repeat the text, which may be a secret that was passed to the wrong option.
Result<void> check_token(const Resolution& r) {
  const std::string& text = r.layers.text(token);
  const bool excludes_file = text == "none" || text == "munge";
  if (!excludes_file && text != "auto" && text != "require") {
    return failure(Errc::usage,
                   "--token: must be auto, none, munge or require; put the token into a file and "
                   "use --token-file, because other users can see command lines");
  }
  if (excludes_file && r.layers.is_given(token_file)) {
    return r.layers.refuse(token_file,
                           text == "none" ? "conflicts with --token=none; use only one of them"
                                          : "conflicts with --token=munge; use only one of them");
  }
  return {};
}

Result<void> resolve_token(const Resolution& r) {
  if (auto checked = check_token(r); !checked) {
    return checked;
  }
  if (many_nodes(r.config())) {
    const std::string& text = r.layers.text(token);
    r.config().token =
        choose_token_source({.off = text == "none",
                             .file = r.layers.text(token_file),
                             .munge = text == "munge",
                             .has_munge = r.machine.file_kind(kMungeSocket) != FileKind::missing,
                             .required = text == "require"},
                            r.environ);
  }
  note_source(r);
  return {};
}

}  // namespace muster
