// SPDX-License-Identifier: Apache-2.0
#include "machine/smi_list.hpp"

#include "base/text.hpp"

#include <algorithm>

namespace muster {
namespace {

constexpr std::size_t kGpusMax = 1024;
constexpr std::size_t kSlicesMax = 64;  // per GPU; at most 7 exist today
constexpr std::size_t kNameMax = 128;

// X in "(UUID: X)", if X has the right prefix and contains no separators or quotes.
std::string uuid_in(std::string_view line, std::string_view begin) {
  constexpr std::string_view kField = "(UUID: ";
  const auto at = line.rfind(kField);
  if (at == line.npos) {
    return "";
  }
  const auto rest = line.substr(at + kField.size());
  const auto name = rest.substr(0, rest.find(')'));
  const bool fits = name.starts_with(begin) && name.size() <= kNameMax &&
                    name.find_first_of(" ,;\"'\t") == name.npos;
  return fits ? std::string(name) : "";
}

// "NVIDIA H100" in "GPU 0: NVIDIA H100 (UUID: ...)".
std::string model_in(std::string_view line) {
  const auto begin = line.find(": ");
  const auto end = line.rfind(" (UUID");
  return begin < end && end != line.npos ? std::string(line.substr(begin + 2, end - begin - 2))
                                         : "";
}

}  // namespace

std::vector<SmiGpu> parse_smi_list(std::string_view text) {
  std::vector<SmiGpu> out;
  for (const std::string& raw : split(text, '\n')) {
    const std::string_view line = trim(raw);
    if (line.starts_with("GPU ") && out.size() < kGpusMax) {
      if (auto uuid = uuid_in(line, "GPU-"); !uuid.empty()) {
        out.push_back({model_in(line), std::move(uuid), {}});
      }
    } else if (line.starts_with("MIG ") && !out.empty() && out.back().slices.size() < kSlicesMax) {
      if (auto uuid = uuid_in(line, "MIG-"); !uuid.empty()) {
        out.back().slices.push_back(std::move(uuid));
      }
    }
  }
  return out;
}

}  // namespace muster
