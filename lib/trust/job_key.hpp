// SPDX-License-Identifier: Apache-2.0
// JobKey: a job's shared key. The agents of the job prove to each other that they have it. Derived
// from the user's token and the job ID, so one job's key is useless for another job. Pure;
// thread-safe.
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <string_view>

namespace muster {

inline constexpr std::size_t kJobKeyBytes = 32;
using JobKey = std::array<unsigned char, kJobKeyBytes>;

// HKDF with SHA-256 (RFC 5869). Fills `out`, which may have at most 8160 bytes.
void hkdf_sha256(std::string_view secret,
                 std::string_view salt,
                 std::string_view info,
                 std::span<unsigned char> out);

[[nodiscard]] JobKey derive_job_key(std::string_view token, std::string_view job);

}  // namespace muster
