// SPDX-License-Identifier: Apache-2.0
// consumer PORT: writes a key to the store on this machine and reads it back.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <muster/store.hpp>

int main(int argc, char** argv) {
  const int port = argc > 1 ? std::atoi(argv[1]) : 0;
  auto store = muster::Store::connect("localhost", static_cast<std::uint16_t>(port));
  if (!store || !store->set("from", "consumer")) {
    return 3;
  }
  const auto value = store->get("from", std::chrono::seconds(20));
  std::puts(value ? value->c_str() : value.error().text.c_str());
  return value ? 0 : 4;
}
