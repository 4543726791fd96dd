// SPDX-License-Identifier: Apache-2.0
// Marks what the shared library shows to programs; all else in it is hidden.
#pragma once

#define MUSTER_COLLECTIVE_API __attribute__((visibility("default")))
#define MUSTER_COLLECTIVE_HIDDEN __attribute__((visibility("hidden")))
