// SPDX-License-Identifier: Apache-2.0
// CredentialService: seals a secret so that only the same user can open it, on any of the user's
// hosts. MUNGE is the only implementation (agent/munge_service); tests have their own. Interface;
// one thread.
#pragma once

#include "base/error.hpp"

#include <functional>
#include <string>

namespace muster {

class CredentialService {
 public:
  using Done = std::function<void(Result<std::string>)>;

  virtual ~CredentialService() = default;

  // Both functions call `done` once, before returning or later from the loop. A secret consists of
  // hexadecimal digits; a credential is one line.
  virtual void seal(const std::string& secret, Done done) = 0;
  virtual void open(const std::string& credential, Done done) = 0;
};

}  // namespace muster
