// SPDX-License-Identifier: Apache-2.0
#include "trust/job_key.hpp"

#include "support/catch.hpp"

#include <fmt/core.h>

#include <string>
#include <vector>

using namespace muster;

namespace {

std::string bytes(int first, int last) {
  std::string out;
  for (int byte = first; byte <= last; ++byte) {
    out += static_cast<char>(byte);
  }
  return out;
}

std::string hkdf(std::string_view secret,
                 std::string_view salt,
                 std::string_view info,
                 std::size_t size) {
  std::vector<unsigned char> out(size);
  hkdf_sha256(secret, salt, info, out);
  std::string hex;
  for (const unsigned char byte : out) {
    hex += fmt::format("{:02x}", byte);
  }
  return hex;
}

}  // namespace

TEST_CASE("job key: the test vectors of RFC 5869, appendix A, for SHA-256") {
  CHECK(hkdf(std::string(22, '\x0b'), bytes(0x00, 0x0c), bytes(0xf0, 0xf9), 42) ==
        "3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf34007208d5b887185865");
  CHECK(hkdf(bytes(0x00, 0x4f), bytes(0x60, 0xaf), bytes(0xb0, 0xff), 82) ==
        "b11e398dc80327a1c8e7f78c596a49344f012eda2d4efad8a050cc4c19afa97c59045a99cac7827271cb41c65e"
        "590e09da3275600c2f09b8367793a9aca3db71cc30c58179ec3e87c14c01d5c1f3434f1d87");
  CHECK(hkdf(std::string(22, '\x0b'), "", "", 42) ==
        "8da4e775a563c18f715f802a063c5a31b8a11f5c5ee1879ec3454e5f3c738d2d9d201395faa4b61a96c8");
}

TEST_CASE("job key: another token or another job gives another key") {
  const JobKey key = derive_job_key("a token of sixteen bytes", "job");
  CHECK(key == derive_job_key("a token of sixteen bytes", "job"));
  CHECK(key != derive_job_key("a token of sixteen bytes", "job2"));
  CHECK(key != derive_job_key("A token of sixteen bytes", "job"));
}
