// SPDX-License-Identifier: Apache-2.0
// An isolated environment for the tests of name resolution: private mount and network namespaces
// for the whole test program, an empty /etc in memory, and a loopback device that is up. Affects
// nothing outside. Works as root, and as an ordinary user if user namespaces are allowed.
#pragma once

#include <string>

// Enters the namespaces on the first call and empties /etc on each call. Fails the test if that is
// impossible.
void start_with_empty_etc();

// Creates an interface in these namespaces with the address fe80::1%muster0.
void add_link_local_interface();

// Writes /etc/<name> in the private /etc.
void write_etc(const std::string& name, const std::string& text);
