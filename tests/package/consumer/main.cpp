// SPDX-License-Identifier: Apache-2.0
// consumer HOST:PORT: writes a key into a store and reads it back, through the installed headers.
#include "base/endpoint.hpp"
#include "io/resolver.hpp"
#include "rendezvous/client/blocking_store.hpp"

#include <cstdio>

int main(int argc, char** argv) {
  const auto where = muster::parse_endpoint(argc > 1 ? argv[1] : "");
  if (!where || !where->port || !muster::resolve_blocking(where->host, std::chrono::seconds(5))) {
    return 2;
  }
  auto store = muster::BlockingStore::connect(where->host, *where->port, std::chrono::seconds(20));
  if (!store || !(*store)->set("from", "consumer")) {
    return 3;
  }
  const auto value = (*store)->get("from", std::chrono::seconds(20));
  std::puts(value ? value->c_str() : value.error().message.c_str());
  return value ? 0 : 4;
}
