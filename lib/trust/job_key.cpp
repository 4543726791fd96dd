// SPDX-License-Identifier: Apache-2.0
#include "trust/job_key.hpp"

#include "base/check.hpp"
#include "trust/tls_library.hpp"

#include <memory>
#include <openssl/core_names.h>
#include <openssl/kdf.h>
#include <openssl/params.h>

namespace muster {
namespace {

// A key for another purpose would be derived with a different text here.
constexpr std::string_view kPurpose = "muster rendezvous 1";

OSSL_PARAM bytes_param(const char* name, std::string_view bytes) {
  // OpenSSL does not modify the data.
  return OSSL_PARAM_construct_octet_string(name, const_cast<char*>(bytes.data()), bytes.size());
}

}  // namespace

void hkdf_sha256(std::string_view secret,
                 std::string_view salt,
                 std::string_view info,
                 std::span<unsigned char> out) {
  use_tls_library();
  const std::unique_ptr<EVP_KDF, decltype(&EVP_KDF_free)> kdf(
      EVP_KDF_fetch(nullptr, OSSL_KDF_NAME_HKDF, nullptr), EVP_KDF_free);
  const std::unique_ptr<EVP_KDF_CTX, decltype(&EVP_KDF_CTX_free)> context(
      EVP_KDF_CTX_new(kdf.get()), EVP_KDF_CTX_free);
  std::string_view digest = "SHA256";
  const std::array params{
      OSSL_PARAM_construct_utf8_string(
          OSSL_KDF_PARAM_DIGEST, const_cast<char*>(digest.data()), digest.size()),
      bytes_param(OSSL_KDF_PARAM_KEY, secret),
      bytes_param(OSSL_KDF_PARAM_SALT, salt),
      bytes_param(OSSL_KDF_PARAM_INFO, info),
      OSSL_PARAM_construct_end()};
  // Fails only if memory is exhausted, or if more bytes are requested than HKDF can produce.
  MUSTER_CHECK(EVP_KDF_derive(context.get(), out.data(), out.size(), params.data()) == 1);
}

JobKey derive_job_key(std::string_view token, std::string_view job) {
  JobKey key{};
  hkdf_sha256(token, job, kPurpose, key);
  return key;
}

}  // namespace muster
