// SPDX-License-Identifier: Apache-2.0
// Macros in arguments and prefixes, by the rules of Python's string.Template.safe_substitute, which
// torchrun uses: $name, ${name}, $$ for one $; anything else stays as it is. Pure.
#pragma once

#include <map>
#include <string>
#include <string_view>

namespace muster {

using Macros = std::map<std::string, std::string, std::less<>>;

[[nodiscard]] std::string expand_macros(std::string_view text, const Macros& macros);

}  // namespace muster
