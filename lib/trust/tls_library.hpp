// SPDX-License-Identifier: Apache-2.0
// Initializes OpenSSL once, when it is first needed; a single-node job never uses it. Used only in
// this directory.
#pragma once

namespace muster {

// Ignores OpenSSL's configuration file and environment variables, because local settings must not
// influence how agents communicate.
void use_tls_library();

}  // namespace muster
