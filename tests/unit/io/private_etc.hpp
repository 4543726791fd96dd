// SPDX-License-Identifier: Apache-2.0
// A world of its own for the tests of names: private mount and network namespaces for the whole
// test program, an empty /etc in memory, and a loopback device that is up. Nothing outside is
// touched. Works as root, and as a plain user where user namespaces are allowed.
#pragma once

#include <string>

// Enters the namespaces on the first call and empties /etc on each. Fails the test where it cannot.
void start_with_empty_etc();

// Makes an interface in these namespaces that has the address fe80::1%muster0.
void add_link_local_interface();

// Writes /etc/<name> in the private /etc.
void write_etc(const std::string& name, const std::string& text);
