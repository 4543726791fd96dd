// SPDX-License-Identifier: Apache-2.0
#include "base/text.hpp"
#include "commands.hpp"
#include "rendezvous/client/blocking_store.hpp"

#include <string>

namespace muster {
namespace {

// Each overload prints a result from the store and returns the exit code.
Result<int> show(const Result<void>& done) {
  return done ? Result<int>(0) : std::unexpected(done.error());
}

Result<int> show(const Result<bool>& found) {
  return found ? Result<int>(*found ? 0 : kExitNotThere) : std::unexpected(found.error());
}

Result<int> show(const Result<std::int64_t>& number) {
  MUSTER_RETURN_IF_ERROR(number);
  print(std::to_string(*number) + "\n");
  return 0;
}

Result<int> show(const Result<std::string>& value) {
  MUSTER_RETURN_IF_ERROR(value);
  print(*value);
  return 0;
}

Result<int> show(const Result<std::vector<std::string>>& keys) {
  MUSTER_RETURN_IF_ERROR(keys);
  for (const auto& key : *keys) {
    print(key + "\n");
  }
  return 0;
}

// The server does not acknowledge a SET, so check the key afterwards.
Result<int> show_written(Store& store, const Result<void>& sent, const std::string& key) {
  MUSTER_RETURN_IF_ERROR(sent);
  const auto there = store.check({key});
  if (there && !*there) {
    return failure(Errc::protocol,
                   "the store does not contain '" + key + "', although it was just set");
  }
  return show(there);
}

Result<int> run_command(const ControlOptions& options, Store& store) {
  const auto& args = options.args;
  switch (options.command) {
    case Command::store_add:
      return show(store.add(args.at(0), *parse_int(args.at(1))));
    case Command::store_append:
      return show_written(store, store.append(args.at(0), args.at(1)), args.at(0));
    case Command::store_check:
      return show(store.check(args));
    case Command::store_count:
      return show(store.num_keys());
    case Command::store_delete:
      return show(store.delete_key(args.at(0)));
    case Command::store_get:
      return show(store.get(args.at(0), options.timeout));
    case Command::store_keys:
      return show(store.list_keys());
    case Command::store_set:
      return show_written(store, store.set(args.at(0), args.at(1)), args.at(0));
    case Command::store_wait:
      return show(store.wait(args, options.timeout));
    default:
      return 0;  // ping: a successful connection is enough
  }
}

}  // namespace

Result<int> run_store(const ControlOptions& options) {
  const auto store =
      BlockingStore::connect(options.store.host, *options.store.port, options.timeout);
  MUSTER_RETURN_IF_ERROR(store);
  return run_command(options, **store);
}

}  // namespace muster
