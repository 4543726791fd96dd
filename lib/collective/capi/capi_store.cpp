// SPDX-License-Identifier: Apache-2.0
#include "collective/bootstrap/served_store.hpp"
#include "collective/capi/capi_impl.hpp"
#include "muster/store.h"
#include "rendezvous/client/blocking_store.hpp"

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

struct muster_store {
  std::unique_ptr<muster::collective::ServedStore> served;
};

struct muster_store_client {
  std::unique_ptr<muster::Store> store;
  std::string value;  // result of the last call
};

namespace muster::collective {
namespace {

constexpr int kPortMax = 65535;

int refuse_port(const char* function) {
  return keep({.code = Errc::invalid_argument,
               .text = std::string(function) + ": the port must be between 0 and 65535"});
}

int kept(const muster::Error& error, std::string_view doing) {
  return keep(
      wrap(error.code == muster::Errc::timed_out ? Errc::timeout : Errc::store, doing, error));
}

template <class T>
int finish_store(const muster::Result<T>& done, std::string_view doing) {
  return done ? 0 : kept(done.error(), doing);
}

// Stores the numeric result, or returns the error.
template <class From, class To>
int give(const muster::Result<From>& got, std::string_view doing, To* to) {
  if (got) {
    *to = static_cast<To>(*got);
  }
  return finish_store(got, doing);
}

int give_text(muster_store_client& client,
              muster::Result<std::string> got,
              std::string_view doing,
              muster_bytes* value) {
  if (!got) {
    return kept(got.error(), doing);
  }
  client.value = std::move(*got);
  *value = {client.value.data(), client.value.size()};
  return 0;
}

std::string_view view(muster_bytes bytes) {
  return {static_cast<const char*>(bytes.data), bytes.size};
}

std::vector<std::string> keys_of(const char* const* keys, size_t count) {
  return {keys, keys + count};
}

}  // namespace
}  // namespace muster::collective

using namespace muster::collective;  // NOLINT(google-build-using-namespace): C has none

extern "C" {

int muster_store_serve(int port, muster_store** store, int* listening) {
  if (port < 0 || port > kPortMax) {
    return refuse_port("muster_store_serve");
  }
  auto served = ServedStore::open("", static_cast<std::uint16_t>(port));
  if (!served) {
    return keep(std::move(served.error()));
  }
  *listening = (*served)->port();
  *store = new muster_store{std::move(*served)};
  return 0;
}

void muster_store_close(muster_store* store) {
  delete store;
}

int muster_store_connect(const char* host,
                         int port,
                         int64_t timeout_ns,
                         muster_store_client** client) {
  if (port < 0 || port > kPortMax) {
    return refuse_port("muster_store_connect");
  }
  auto store = muster::BlockingStore::connect(
      text_of(host), static_cast<std::uint16_t>(port), muster::Duration(timeout_ns));
  if (!store) {
    return kept(store.error(), "muster_store_connect");
  }
  *client = new muster_store_client{std::move(*store), {}};
  return 0;
}

void muster_store_disconnect(muster_store_client* client) {
  delete client;
}

int muster_store_set(muster_store_client* client, const char* key, muster_bytes value) {
  return finish_store(client->store->set(key, view(value)), "muster_store_set");
}

int muster_store_get(muster_store_client* client,
                     const char* key,
                     int64_t timeout_ns,
                     muster_bytes* value) {
  return give_text(
      *client, client->store->get(key, muster::Duration(timeout_ns)), "muster_store_get", value);
}

int muster_store_add(muster_store_client* client, const char* key, int64_t delta, int64_t* sum) {
  return give(client->store->add(key, delta), "muster_store_add", sum);
}

int muster_store_compare_set(muster_store_client* client,
                             const char* key,
                             muster_bytes expected,
                             muster_bytes desired,
                             muster_bytes* value) {
  return give_text(*client,
                   client->store->compare_set(key, view(expected), view(desired)),
                   "muster_store_compare_set",
                   value);
}

int muster_store_wait(muster_store_client* client,
                      const char* const* keys,
                      size_t count,
                      int64_t timeout_ns) {
  return finish_store(client->store->wait(keys_of(keys, count), muster::Duration(timeout_ns)),
                      "muster_store_wait");
}

int muster_store_check(muster_store_client* client,
                       const char* const* keys,
                       size_t count,
                       int* exist) {
  return give(client->store->check(keys_of(keys, count)), "muster_store_check", exist);
}

int muster_store_delete(muster_store_client* client, const char* key, int* existed) {
  return give(client->store->delete_key(key), "muster_store_delete", existed);
}

int muster_store_barrier(muster_store_client* client,
                         const char* key,
                         int world_size,
                         int64_t timeout_ns) {
  return finish_store(client->store->barrier(key, world_size, muster::Duration(timeout_ns)),
                      "muster_store_barrier");
}

}  // extern "C"
