// SPDX-License-Identifier: Apache-2.0
// The web page that shows the job. Its files are in lib/agent/web/page and are compiled into the
// program. It loads nothing from other hosts. Read-only data.
#pragma once

#include <string_view>

namespace muster {

struct PageFile {
  std::string_view path;  // "/"
  std::string_view type;
  std::string_view text;
};

// Null if the page has no such file.
[[nodiscard]] const PageFile* page_file(std::string_view path);

}  // namespace muster
