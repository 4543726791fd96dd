// SPDX-License-Identifier: Apache-2.0
// The only include of Catch2 (version 3 moves its headers).
#pragma once

#include <catch2/catch.hpp>
