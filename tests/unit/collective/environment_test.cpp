// SPDX-License-Identifier: Apache-2.0
#include "collective/bootstrap/environment.hpp"

#include "collective/bootstrap/hosts.hpp"
#include "support/catch.hpp"

#include <thread>

namespace muster::collective {
namespace {

Environ worker() {
  return Environ({{"RANK", "1"},
                  {"WORLD_SIZE", "2"},
                  {"MASTER_ADDR", "127.0.0.1"},
                  {"MASTER_PORT", "29500"},
                  {"TORCHELASTIC_RESTART_COUNT", "3"},
                  {"TORCHELASTIC_RUN_ID", "run"},
                  {"TORCHELASTIC_USE_AGENT_STORE", "True"}});
}

TEST_CASE("environment: variables that a launcher sets") {
  const auto place = worker_place(worker());
  REQUIRE(place.has_value());
  CHECK(place->membership == Membership{.rank = 1, .size = 2, .epoch = 3, .job = "run"});
  CHECK(place->store_host == "127.0.0.1");
  CHECK(place->store_port == 29500);
  CHECK(place->agent_store);
}

TEST_CASE("environment: errors name missing and invalid variables") {
  for (const char* const name : {"RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"}) {
    Environ environ = worker();
    environ.erase(name);
    const auto place = worker_place(environ);
    REQUIRE_FALSE(place.has_value());
    CHECK(place.error().code == Errc::invalid_argument);
    CHECK(place.error().text.find(name) != std::string::npos);
  }
  Environ environ = worker();
  environ.set("RANK", "2");
  CHECK(worker_place(environ).error().text == "RANK='2' is not an integer between 0 and 1");
}

TEST_CASE("environment: a single rank needs no store") {
  const Environ alone({{"RANK", "0"}, {"WORLD_SIZE", "1"}});
  auto comm = Communicator::from_env(alone, {});
  REQUIRE(comm.has_value());
  CHECK(comm->barrier().has_value());
}

TEST_CASE("environment: variables override options") {
  const Environ environ({{"MUSTER_COLLECTIVE_BACKEND", "tcp"},
                         {"MUSTER_COLLECTIVE_TIMEOUT", "5s"},
                         {"MUSTER_COLLECTIVE_HOST", "h"},
                         {"MUSTER_COLLECTIVE_ARENA", "4096"}});
  const auto options = with_overrides({}, environ);
  REQUIRE(options.has_value());
  CHECK(options->backend == Backend::tcp);
  CHECK(options->timeout == std::chrono::seconds(5));
  CHECK(options->host == "h");
  CHECK(options->arena_bytes == 4096);
  Environ wrong;
  wrong.set("MUSTER_COLLECTIVE_BACKEND", "udp");
  CHECK_FALSE(with_overrides({}, wrong).has_value());
  wrong.erase("MUSTER_COLLECTIVE_BACKEND");
  wrong.set("MUSTER_COLLECTIVE_TIMEOUT", "soon");
  CHECK_FALSE(with_overrides({}, wrong).has_value());
}

TEST_CASE("hosts: ranks with the same host id share a host, which selects the backend") {
  const Hosts hosts = group_by_host({"b", "a", "b"});
  CHECK(hosts.ranks == std::vector<std::vector<int>>{{0, 2}, {1}});
  CHECK(hosts.beside(2) == std::vector<int>{0, 2});
  CHECK(choose_backend(Backend::automatic, hosts) == Backend::hier);
  CHECK(choose_backend(Backend::automatic, group_by_host({"a", "a"})) == Backend::shm);
  CHECK(choose_backend(Backend::automatic, group_by_host({"a", "b"})) == Backend::tcp);
  CHECK(choose_backend(Backend::tcp, group_by_host({"a", "a"})) == Backend::tcp);
}

}  // namespace
}  // namespace muster::collective
