// SPDX-License-Identifier: Apache-2.0
// Expands macros in arguments and line prefixes. References to unknown macros stay unchanged. Pure.
#pragma once

#include <map>
#include <string>
#include <string_view>

namespace muster {

using Macros = std::map<std::string, std::string, std::less<>>;

enum class MacroSyntax {
  braces,          // ${name} only, so that shell code such as 'kill $$' is not changed
  python_template  // $name, ${name}, and $$ for $: Python's string.Template.safe_substitute
};

[[nodiscard]] std::string expand_macros(std::string_view text,
                                        const Macros& macros,
                                        MacroSyntax syntax);

}  // namespace muster
