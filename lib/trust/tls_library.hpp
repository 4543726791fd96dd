// SPDX-License-Identifier: Apache-2.0
// OpenSSL, set up once and only where it is used: a job of one node never touches it. Used inside
// this room only.
#pragma once

namespace muster {

// Without its configuration file and its variables: what a machine has there must not decide how
// agents talk to each other.
void use_tls_library();

}  // namespace muster
