// SPDX-License-Identifier: Apache-2.0
#include "trust/tls_library.hpp"

#include "base/check.hpp"

#include <cstdint>
#include <openssl/ssl.h>

#include <netdb.h>

namespace muster {
namespace {

// Skips loading the names of old algorithms and the error strings, which would take half a
// millisecond.
constexpr std::uint64_t kLeaveOut =
    OPENSSL_INIT_NO_LOAD_SSL_STRINGS | OPENSSL_INIT_NO_LOAD_CRYPTO_STRINGS |
    OPENSSL_INIT_NO_ADD_ALL_CIPHERS | OPENSSL_INIT_NO_ADD_ALL_DIGESTS;
constexpr std::uint64_t kHow = OPENSSL_INIT_NO_LOAD_CONFIG | OPENSSL_INIT_NO_ATEXIT | kLeaveOut;

}  // namespace

void use_tls_library() {
  // OpenSSL ignores repeated calls.
  MUSTER_CHECK(OPENSSL_init_ssl(kHow, nullptr) == 1);
}

}  // namespace muster

// OpenSSL can resolve host names, which muster never uses. A static program cannot rely on the C
// library's resolver, so the linker replaces these functions (--wrap) with versions that fail.
// NOLINTBEGIN(bugprone-reserved-identifier,readability-identifier-naming): the linker's names
extern "C" {

[[gnu::used]] int __wrap_getaddrinfo(const char* /*node*/,
                                     const char* /*service*/,
                                     const addrinfo* /*hints*/,
                                     addrinfo** /*found*/) {
  return EAI_FAIL;
}

[[gnu::used]] void __wrap_freeaddrinfo(addrinfo* /*found*/) {}

[[gnu::used]] int __wrap_getnameinfo() {
  return EAI_FAIL;
}

[[gnu::used]] hostent* __wrap_gethostbyname(const char* /*name*/) {
  h_errno = NO_RECOVERY;
  return nullptr;
}

}  // extern "C"
// NOLINTEND(bugprone-reserved-identifier,readability-identifier-naming)
