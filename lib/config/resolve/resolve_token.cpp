// SPDX-License-Identifier: Apache-2.0
// Which secret the nodes of a job prove themselves with. No file is opened here.
#include "config/resolve/resolution.hpp"
#include "trust/token_source.hpp"

namespace muster {
namespace {

using enum OptionId;

void note_source(const Resolution& r) {
  const TokenSource& source = r.config().token;
  if (!many_nodes(r.config())) {
    r.set_origin(token_file, "one node needs none");
  } else if (source.munge == MungeUse::wanted) {
    r.set_origin(token_file,
                 "there is " + std::string(kMungeSocket) +
                     "; nodes that have no MUNGE "
                     "need the same file");
  } else if (source.from == TokenFrom::nowhere) {
    r.set_origin(token_file, source.why_none);
  } else if (source.from == TokenFrom::home) {
    r.set_origin(token_file,
                 source.why_not_made.empty() ? "your home; made by the first job that needs it"
                                             : "your home; not made: " + source.why_not_made);
  }
}

}  // namespace

// A secret that somebody gives in the wrong place is not repeated.
Result<void> check_token(const Resolution& r) {
  const std::string& text = r.layers.text(token);
  const bool excludes_file = text == "none" || text == "munge";
  if (!excludes_file && text != "auto" && text != "require") {
    return failure(Errc::usage,
                   "--token: must be auto, none, munge or require; a token itself is given in a "
                   "file, by --token-file, "
                   "since other users see command lines");
  }
  if (excludes_file && r.layers.is_given(token_file)) {
    return r.layers.refuse(token_file,
                           text == "none"
                               ? "--token=none says that there is none; give one of the two"
                               : "--token=munge asks for MUNGE in its place; give one of the two");
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
