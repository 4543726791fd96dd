// SPDX-License-Identifier: Apache-2.0
#include "trust/tls_library.hpp"

#include "base/check.hpp"

#include <openssl/ssl.h>

namespace muster {

void use_tls_library() {
  // It remembers by itself that this was done.
  MUSTER_CHECK(OPENSSL_init_ssl(OPENSSL_INIT_NO_LOAD_CONFIG | OPENSSL_INIT_NO_ATEXIT, nullptr) ==
               1);
}

}  // namespace muster
