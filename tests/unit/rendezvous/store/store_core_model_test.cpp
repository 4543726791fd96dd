// SPDX-License-Identifier: Apache-2.0
// StoreCore against a simple model, with random requests from random sessions. The model keeps
// plain ordered containers, and checks every waiter each time to find the ones to wake.
#include "store_fixture.hpp"
#include "support/seed.hpp"

#include <deque>
#include <map>
#include <set>

using namespace muster;
using testing::byte;
using testing::Dice;
using testing::Seed;
using testing::StoreFixture;

namespace {

std::string number_bytes(std::int64_t number) {
  std::string out;
  append_int(out, number);
  return out;
}

std::string value_bytes(std::string_view value) {
  std::string out;
  append_bytes(out, value);
  return out;
}

struct Model {
  struct Wait {
    SessionId session;
    std::multiset<std::string> missing;
  };

  std::map<std::string, std::string> values;
  std::map<std::string, std::deque<std::string>> queues;
  std::vector<Wait> waits;  // oldest first
  std::vector<SessionId> woken;

  bool ready(const std::string& key) const {
    return values.contains(key) || (queues.contains(key) && !queues.at(key).empty());
  }

  void arrive(const std::string& key, bool first_only) {
    for (auto wait = waits.begin(); wait != waits.end();) {
      const bool concerned = wait->missing.contains(key);
      if (concerned && first_only) {
        wait->missing.erase(wait->missing.find(key));
      } else if (concerned) {
        wait->missing.erase(key);
      }
      const bool over = wait->missing.empty();
      if (over) {
        woken.push_back(wait->session);
      }
      wait = over ? waits.erase(wait) : wait + 1;
      if (concerned && first_only) {
        return;
      }
    }
  }

  void put(const std::string& key, const std::string& value) {
    values[key] = value;
    arrive(key, false);
  }

  std::string wait(SessionId session, const std::vector<std::string>& keys) {
    std::multiset<std::string> missing;
    for (const std::string& key : keys) {
      if (!ready(key)) {
        missing.insert(key);
      }
    }
    if (missing.empty()) {
      return byte(0);
    }
    waits.push_back({session, missing});
    return {};
  }

  std::string add(const std::string& key, std::int64_t delta) {
    const std::int64_t now = (values.contains(key) ? std::stoll(values[key]) : 0) + delta;
    put(key, std::to_string(now));
    return number_bytes(now);
  }

  std::string pop(const std::string& key) {
    auto& queue = queues[key];
    std::string out = number_bytes(static_cast<std::int64_t>(queue.size()));
    if (!queue.empty()) {
      out += value_bytes(queue.front());
      queue.pop_front();
    }
    return out;
  }

  void cancel(SessionId session) {
    std::erase_if(waits, [&](const Wait& wait) { return wait.session == session; });
  }

  std::string compare_set(const std::string& key, const std::string& old, const std::string& now) {
    if (!values.contains(key) && !old.empty()) {
      return value_bytes(old);
    }
    if (values.contains(key) && values[key] != old) {
      return value_bytes(values[key]);
    }
    put(key, now);
    return value_bytes(now);
  }

  std::string barrier(SessionId session, const std::string& key, std::int64_t world) {
    const std::int64_t count = (values.contains(key) ? std::stoll(values[key]) : 0) + 1;
    if (count >= world) {
      put(key, std::to_string(count));
      return byte(0);
    }
    values[key] = std::to_string(count);
    waits.push_back({session, {key}});
    return {};
  }
};

struct Run {
  explicit Run(std::uint64_t seed) : dice(seed) {}

  Dice dice;
  StoreFixture store;
  Model model;

  std::string key(const char* kind) { return kind + std::to_string(dice.below(6)); }

  // Runs the request on both, and compares the reply and the woken waiters, in order.
  void both(const std::string& real, const std::string& expected) {
    REQUIRE(store.refusal.empty());
    REQUIRE(testing::to_hex(real) == testing::to_hex(expected));
    REQUIRE(store.woken() == model.woken);
    model.woken.clear();
  }

  void step() {
    store.session = static_cast<SessionId>(dice.below(8));
    switch (dice.below(5)) {
      case 0:
        return step_values();
      case 1:
        return step_numbers();
      case 2:
        return step_waits();
      case 3:
        return step_queues();
      default:
        return step_ends();
    }
  }

  void step_values() {
    const std::string k = key("/v");
    const std::string value = dice.bytes(dice.below(40));
    if (dice.below(3) == 0) {
      const std::string old = dice.below(2) == 0 ? "" : model.values[k];
      model.values[k] = model.values[k];
      store.set(k, model.values[k]);
      model.arrive(k, false);
      both("", "");
      const std::string real = store.ask_strings(Opcode::compare_set, {k, old, value});
      both(real, model.compare_set(k, old, value));
    } else if (dice.below(2) == 0) {
      model.put(k, value);
      both(store.ask_strings(Opcode::set, {k, value}), "");
    } else {
      const std::string real = store.ask_strings(Opcode::delete_key, {k});
      both(real, number_bytes(static_cast<std::int64_t>(model.values.erase(k))));
    }
  }

  void step_numbers() {
    const std::string k = key("/n");
    const auto delta = static_cast<std::int64_t>(dice.below(100)) - 50;
    if (dice.below(3) == 0) {
      const std::string real = store.ask_number(Opcode::barrier, k, delta);
      both(real, model.barrier(store.session, k, delta));
    } else {
      const std::string real = store.ask_number(Opcode::add, k, delta);
      both(real, model.add(k, delta));
    }
  }

  void step_waits() {
    std::vector<std::string> keys;
    for (std::uint64_t i = dice.below(4); i > 0; --i) {
      keys.push_back(key(dice.below(2) == 0 ? "/v" : dice.below(2) == 0 ? "/n" : "/q"));
    }
    if (dice.below(4) == 0) {
      const bool ready = std::ranges::all_of(keys, [&](auto& k) { return model.ready(k); });
      both(store.ask_keys(Opcode::check, keys), byte(ready ? 0 : 1));
    } else {
      const std::string real = store.ask_keys(Opcode::wait, keys);
      both(real, model.wait(store.session, keys));
    }
  }

  void step_queues() {
    const std::string k = key("/q");
    if (dice.below(2) == 0) {
      const std::string value = dice.bytes(dice.below(20));
      model.queues[k].push_back(value);
      model.arrive(k, true);
      both(store.ask_strings(Opcode::queue_push, {k, value}), "");
    } else {
      const std::string real = store.ask_strings(Opcode::queue_pop, {k});
      both(real, model.pop(k));
    }
  }

  void step_ends() {
    model.cancel(store.session);
    if (dice.below(2) == 0) {
      both(store.ask_strings(Opcode::cancel_wait, {}), byte(1));
    } else {
      store.core.forget(store.session);
    }
  }

  void compare_all() {
    std::string expected = number_bytes(static_cast<std::int64_t>(model.values.size()));
    for (const auto& [k, value] : model.values) {
      expected += value_bytes(k);
      REQUIRE(store.get(k) == value);
    }
    both(store.ask_strings(Opcode::list_keys, {}), expected);
  }

  void empty_all() {
    for (SessionId id = 0; id < 8; ++id) {
      store.core.forget(id);
    }
    for (const auto& [k, value] : model.values) {
      store.ask_strings(Opcode::delete_key, {k});
    }
    for (auto& [k, queue] : model.queues) {
      while (!queue.empty()) {
        queue.pop_front();
        store.ask_strings(Opcode::queue_pop, {k});
      }
    }
    REQUIRE(store.core.stored_bytes() == 0);
  }
};

}  // namespace

TEST_CASE("store core: answers random requests like a simple model") {
  const Seed seed;
  INFO(seed.describe());
  for (std::uint64_t run = 0; run < 40; ++run) {
    INFO("run " << run);
    Run both(seed.value() + run);
    for (int i = 0; i < 400; ++i) {
      both.step();
    }
    both.compare_all();
    both.empty_all();
  }
}
