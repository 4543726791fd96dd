// SPDX-License-Identifier: Apache-2.0
// Any text is a host list or is refused with a reason, within the limit of names; a list of its
// names yields the same names again. Also parses the text as a list of repetitions, and as JSON.
#include "base/check.hpp"
#include "base/text.hpp"
#include "platform/host_list.hpp"
#include "platform/job_hosts.hpp"
#include "platform/json_text.hpp"

#include <nlohmann/json.hpp>

#include <cstdint>
#include <string_view>

namespace {

void try_hosts(std::string_view text) {
  const auto names = muster::expand_host_list(text);
  if (!names) {
    MUSTER_CHECK(!names.error().message.empty());
    return;
  }
  MUSTER_CHECK(!names->empty() && names->size() <= muster::kHostsMax);
  MUSTER_CHECK(muster::expand_host_list(muster::join(*names, ",")) == names);
}

void try_repetitions(std::string_view text) {
  const auto counts = muster::expand_repetitions(text);
  MUSTER_CHECK(!counts || counts->size() <= muster::kHostsMax);
}

// Accepted text becomes a word for a remote shell.
void try_job_hosts(std::string_view text) {
  for (const auto& hosts : {muster::parse_job_hosts(text), muster::parse_host_file(text)}) {
    if (!hosts) {
      MUSTER_CHECK(!hosts.error().message.empty());
      continue;
    }
    MUSTER_CHECK(!hosts->empty() && hosts->size() <= muster::kJobHostsMax);
    for (const muster::JobHost& host : *hosts) {
      MUSTER_CHECK(!host.target.starts_with('-') && !host.name().starts_with('-'));
      MUSTER_CHECK(muster::shell_quoted(host.target) == host.target);
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try_hosts(text);
  try_repetitions(text);
  try_job_hosts(text);
  static_cast<void>(muster::json_texts(text));
  static_cast<void>(muster::json_object(text));
  return 0;
}
