// SPDX-License-Identifier: Apache-2.0
// CredentialService: seals a secret so that only the same user can open it, on whatever machine of
// his. MUNGE is the one that there is (agent/rounds/munge_service); tests have their own.
// Interface; one thread.
#pragma once

#include "base/error.hpp"

#include <functional>
#include <string>

namespace muster {

class CredentialService {
 public:
  using Done = std::function<void(Result<std::string>)>;

  virtual ~CredentialService() = default;

  // Each calls `done` once: before it returns, or later from the loop. A secret is hexadecimal
  // digits, a credential one line.
  virtual void seal(const std::string& secret, Done done) = 0;
  virtual void open(const std::string& credential, Done done) = 0;
};

}  // namespace muster
