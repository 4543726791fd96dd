// SPDX-License-Identifier: Apache-2.0
#include "trust/tls_library.hpp"

#include "base/check.hpp"

#include <cstdint>
#include <openssl/ssl.h>

namespace muster {
namespace {

// Names of old algorithms and texts of errors, which would cost half a millisecond.
constexpr std::uint64_t kLeaveOut =
    OPENSSL_INIT_NO_LOAD_SSL_STRINGS | OPENSSL_INIT_NO_LOAD_CRYPTO_STRINGS |
    OPENSSL_INIT_NO_ADD_ALL_CIPHERS | OPENSSL_INIT_NO_ADD_ALL_DIGESTS;
constexpr std::uint64_t kHow = OPENSSL_INIT_NO_LOAD_CONFIG | OPENSSL_INIT_NO_ATEXIT | kLeaveOut;

}  // namespace

void use_tls_library() {
  // It remembers by itself that this was done.
  MUSTER_CHECK(OPENSSL_init_ssl(kHow, nullptr) == 1);
}

}  // namespace muster
