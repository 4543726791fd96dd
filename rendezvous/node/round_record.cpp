// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/node/round_record.hpp"

#include "rendezvous/node/record_file.hpp"
#include "rendezvous/wire/round_limits.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace muster {
namespace {

// This must exceed the length of a round, because records on network file systems are not touched.
constexpr Duration kFreshOnNetwork = std::chrono::hours(24 * 7);

constexpr std::size_t kRecordBytesMax = std::size_t{kMaxListsBody} + 4096;

std::string lock_of(const std::string& path) {
  return path + std::string(kLockSuffix);
}

bool exists(const std::string& path) {
  return ::faccessat(AT_FDCWD, path.c_str(), F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

}  // namespace

RoundRecord RoundRecord::open(const std::string& folder,
                              const std::string& name,
                              Duration fresh_for) {
  RoundRecord found;
  found.name_ = name;
  if (const auto made = make_state_folder(folder); !made) {
    found.trouble_ = made.error().message;
    return found;
  }
  found.is_on_network_ = is_on_network(folder);
  found.fresh_for_ = found.is_on_network_ ? std::max(fresh_for, kFreshOnNetwork) : fresh_for;
  found.take_slot(folder);
  remove_old_state(folder);
  return found;
}

// An empty slot is used only if no later slot has a record.
void RoundRecord::take_slot(const std::string& folder) {
  for (int slot = 0; slot < kRecordSlotsMax; ++slot) {
    const std::string path = fmt::format("{}/{}.{}", folder, name_, slot);
    const bool has_record = exists(path);
    if (is_on() && !has_record) {
      continue;
    }
    if (auto fd = lock_state_file(lock_of(path))) {
      if (is_on()) {
        static_cast<void>(::unlink(lock_of(path_).c_str()));
      }
      path_ = path;
      lock_ = std::move(*fd);
      if (has_record) {
        return;
      }
    } else if (!is_on()) {
      trouble_ = fd.error().message;
    }
  }
}

Recalled RoundRecord::read() const {
  const auto file = read_state_file(path_, kRecordBytesMax);
  if (!file) {
    const bool is_missing = file.error().code == Errc::not_found;
    return {.memory = {}, .ignored = is_missing ? "" : file.error().message};
  }
  const auto ignored = [&](const std::string& why) {
    return Recalled{{}, path_ + " " + why, false};
  };
  auto memory = decode_memory(file->bytes);
  if (!memory) {
    return ignored(memory.error().message);
  }
  if (memory->owner != name_) {
    return ignored(fmt::format("is the record of {}, not of {}", memory->owner, name_));
  }
  if (file->age > fresh_for_) {
    const auto age = std::chrono::duration_cast<std::chrono::seconds>(file->age).count();
    Recalled stale = ignored(fmt::format("is {} s old, which exceeds join_timeout", age));
    stale.is_stale = true;
    return stale;
  }
  return {.memory = std::move(*memory), .ignored = {}};
}

Result<void> RoundRecord::write(Memory memory, bool durable) const {
  memory.owner = name_;
  const auto bytes = encode_memory(memory);
  return bytes ? replace_state_file(path_, *bytes, durable) : std::unexpected(bytes.error());
}

Duration RoundRecord::touch_interval() const {
  return std::min<Duration>(std::chrono::seconds(30), fresh_for_ / 4);
}

void RoundRecord::touch() const {
  if (!is_on_network_) {
    static_cast<void>(::utimensat(AT_FDCWD, path_.c_str(), nullptr, 0));
  }
}

bool RoundRecord::discard() const {
  return ::unlink(path_.c_str()) == 0 || errno == ENOENT;
}

void RoundRecord::remove() const {
  if (discard()) {
    static_cast<void>(::unlink(lock_of(path_).c_str()));
  }
}

}  // namespace muster
