// SPDX-License-Identifier: Apache-2.0
// Facts for tests: variables, a host name, one address, and only the files that a test adds.
#pragma once

#include "platform/facts.hpp"

#include <map>

namespace muster {

inline PlatformFacts fake_facts(std::map<std::string, std::string, std::less<>> variables,
                                std::string hostname = "node1",
                                std::map<std::string, std::string> files = {}) {
  PlatformFacts facts;
  facts.environ = Environ(std::move(variables));
  facts.hostname = std::move(hostname);
  facts.addresses = [] { return std::vector<std::string>{"127.0.0.1", "10.0.0.7"}; };
  facts.read_file = [files = std::move(files)](const std::string& path) {
    const auto found = files.find(path);
    return found == files.end() ? failure(Errc::not_found, path)
                                : Result<std::string>(found->second);
  };
  return facts;
}

}  // namespace muster
