// SPDX-License-Identifier: Apache-2.0
// The page that draws the job in a browser. Its files lie in lib/agent/web/page and are compiled
// in; it needs nothing from elsewhere. Read-only data.
#pragma once

#include <string_view>

namespace muster {

struct PageFile {
  std::string_view path;  // "/"
  std::string_view type;
  std::string_view text;
};

// Null: the page has no such file.
[[nodiscard]] const PageFile* page_file(std::string_view path);

}  // namespace muster
