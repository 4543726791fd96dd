// SPDX-License-Identifier: Apache-2.0
#include "collective/flight_recorder.hpp"

#include "base/clock.hpp"
#include "collective/shared_memory.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <map>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace muster::collective {
namespace {

constexpr std::uint64_t kMagic = 0x3154484c4654534d;  // "MSTFLHT1"
constexpr std::size_t kNameBytes = 64;
constexpr std::size_t kMostEntries = 1UL << 20;

std::uint64_t nanoseconds(TimePoint when) {
  return static_cast<std::uint64_t>(when.time_since_epoch().count());
}

// A file that a path of the name's letters can have.
std::string file_name(const FlightRecorder::Place& place) {
  std::string name = place.name;
  std::ranges::replace(name, '/', '.');
  return fmt::format("flight-{}-epoch{}-rank{}.ring", name, place.epoch, place.rank);
}

}  // namespace

struct FlightRecorder::Head {
  std::uint64_t magic;
  std::int32_t rank;
  std::int32_t size;
  std::uint64_t epoch;
  std::uint64_t entries;
  std::atomic<std::uint64_t> next;
  std::int32_t pid;
  std::uint32_t reserved;
  char name[kNameBytes];
};

struct FlightRecorder::Entry {
  std::atomic<std::uint64_t> ticket;  // from 1; written last
  std::uint64_t seq;
  std::uint64_t count;
  std::int32_t root;
  std::uint8_t kind;
  std::uint8_t op;
  std::uint8_t dtype;
  std::uint8_t reserved;
  std::atomic<std::uint64_t> queued;
  std::atomic<std::uint64_t> started;
  std::atomic<std::uint64_t> completed;
  std::uint64_t more;
};

Result<std::unique_ptr<FlightRecorder>> FlightRecorder::open(const Place& place) {
  std::unique_ptr<FlightRecorder> out(new FlightRecorder());
  out->entries_ = std::min(place.entries, kMostEntries);
  if (out->entries_ == 0) {
    return out;
  }
  out->bytes_ = sizeof(Head) + out->entries_ * sizeof(Entry);
  const auto size = static_cast<off_t>(out->bytes_);
  if (auto allowed = allowed_by_file_limit(out->bytes_); !allowed) {
    return std::unexpected(allowed.error());
  }
  if (!place.folder.empty()) {
    out->path_ = place.folder + "/" + file_name(place);
    out->fd_ = UniqueFd(::open(out->path_.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
    // Without its blocks a full disk would end the program by a signal.
    if (out->fd_ && ::posix_fallocate(out->fd_.get(), 0, size) != 0) {
      static_cast<void>(::unlink(out->path_.c_str()));
      out->fd_.reset();
    }
  }
  if (!out->fd_) {
    out->fd_ = UniqueFd(::memfd_create(file_name(place).c_str(), MFD_CLOEXEC));
    if (!out->fd_ || ::fallocate(out->fd_.get(), 0, 0, size) != 0) {
      return std::unexpected(system_failure("making memory for the flight recorder", errno));
    }
    out->path_ = fmt::format("/proc/{}/fd/{}", ::getpid(), out->fd_.get());
  }
  if (auto mapped = out->map(out->fd_.get(), place); !mapped) {
    return std::unexpected(mapped.error());
  }
  return out;
}

Result<void> FlightRecorder::map(int fd, const Place& place) {
  void* const at = ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (at == MAP_FAILED) {
    return std::unexpected(system_failure("mapping the flight recorder", errno));
  }
  head_ = static_cast<Head*>(at);
  ring_ = reinterpret_cast<Entry*>(static_cast<char*>(at) + sizeof(Head));
  head_->rank = place.rank;
  head_->size = place.size;
  head_->epoch = place.epoch;
  head_->entries = entries_;
  head_->pid = ::getpid();
  std::memcpy(head_->name, place.name.data(), std::min(place.name.size(), kNameBytes - 1));
  head_->magic = kMagic;
  return {};
}

FlightRecorder::~FlightRecorder() {
  if (head_ != nullptr) {
    ::munmap(head_, bytes_);
  }
}

FlightRecorder::Entry* FlightRecorder::entry(std::uint64_t ticket) {
  return ticket == 0 ? nullptr : &ring_[(ticket - 1) % entries_];
}

std::uint64_t FlightRecorder::queued(const Request& request, TimePoint now) {
  if (entries_ == 0) {
    return 0;
  }
  const std::uint64_t ticket = head_->next.fetch_add(1, std::memory_order_relaxed) + 1;
  Entry& e = *entry(ticket);
  e.ticket.store(0, std::memory_order_relaxed);
  e.seq = request.seq;
  e.count = request.count;
  e.root = request.root;
  e.kind = static_cast<std::uint8_t>(request.kind);
  e.op = static_cast<std::uint8_t>(request.op);
  e.dtype = static_cast<std::uint8_t>(request.dtype);
  e.queued.store(nanoseconds(now), std::memory_order_relaxed);
  e.started.store(0, std::memory_order_relaxed);
  e.completed.store(0, std::memory_order_relaxed);
  e.ticket.store(ticket, std::memory_order_release);
  return ticket;
}

void FlightRecorder::started_at(std::uint64_t ticket, TimePoint now) {
  if (Entry* const e = entry(ticket)) {
    e->started.store(nanoseconds(now), std::memory_order_relaxed);
  }
}

void FlightRecorder::completed_at(std::uint64_t ticket, TimePoint now) {
  if (Entry* const e = entry(ticket)) {
    e->completed.store(nanoseconds(now), std::memory_order_relaxed);
  }
}

// The newest one that fits: operations of the same kind and number differ by their other side.
FlightRecorder::Entry* FlightRecorder::find(const Request& request) {
  const std::uint64_t newest = entries_ == 0 ? 0 : head_->next.load(std::memory_order_relaxed);
  for (std::uint64_t back = 0; back < std::min<std::uint64_t>(newest, entries_); ++back) {
    Entry* const e = entry(newest - back);
    if (e->ticket.load(std::memory_order_acquire) == newest - back && e->seq == request.seq &&
        e->kind == static_cast<std::uint8_t>(request.kind) && e->root == request.root) {
      return e;
    }
  }
  return nullptr;
}

void FlightRecorder::started(const Request& request) {
  if (Entry* const e = find(request)) {
    e->started.store(nanoseconds(steady_now()), std::memory_order_relaxed);
  }
}

void FlightRecorder::completed(const Request& request) {
  if (Entry* const e = find(request)) {
    e->completed.store(nanoseconds(steady_now()), std::memory_order_relaxed);
  }
}

Result<FlightLog> read_flight(const std::string& path) {
  using Head = FlightRecorder::Head;
  using Entry = FlightRecorder::Entry;
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));

  struct stat facts {};

  if (!fd || ::fstat(fd.get(), &facts) != 0) {
    return std::unexpected(system_failure("reading " + path, errno));
  }
  std::string bytes(static_cast<std::size_t>(facts.st_size), '\0');
  const auto got = ::pread(fd.get(), bytes.data(), bytes.size(), 0);
  alignas(Head) std::array<char, sizeof(Head)> raw_head{};
  if (got < static_cast<ssize_t>(sizeof(Head))) {
    return failure(Errc::invalid_argument, path + " is no flight recorder");
  }
  std::memcpy(raw_head.data(), bytes.data(), sizeof(Head));
  const auto& head = *reinterpret_cast<const Head*>(raw_head.data());
  const std::uint64_t entries = head.entries;
  if (head.magic != kMagic || entries == 0 || entries > kMostEntries ||
      bytes.size() < sizeof(Head) + entries * sizeof(Entry)) {
    return failure(Errc::invalid_argument, path + " is no flight recorder");
  }
  FlightLog log;
  log.name = std::string(head.name, ::strnlen(head.name, kNameBytes));
  log.rank = head.rank;
  log.size = head.size;
  log.pid = head.pid;
  log.epoch = head.epoch;
  const std::uint64_t next = head.next.load();
  for (std::uint64_t ticket = next > entries ? next - entries + 1 : 1; ticket <= next; ++ticket) {
    alignas(Entry) std::array<char, sizeof(Entry)> raw{};
    std::memcpy(raw.data(),
                bytes.data() + sizeof(Head) + (ticket - 1) % entries * sizeof(Entry),
                sizeof(Entry));
    const auto& e = *reinterpret_cast<const Entry*>(raw.data());
    if (e.ticket.load() != ticket) {
      continue;  // was being written
    }
    FlightRecord record;
    record.request.kind = static_cast<Kind>(e.kind);
    record.request.op = static_cast<Op>(e.op);
    record.request.dtype = static_cast<DType>(e.dtype);
    record.request.count = e.count;
    record.request.root = e.root;
    record.request.seq = e.seq;
    record.queued_ns = e.queued.load();
    record.started_ns = e.started.load();
    record.completed_ns = e.completed.load();
    log.records.push_back(record);
  }
  return log;
}

namespace {

bool is_transfer(const FlightRecord& record) {
  return record.request.kind == Kind::send || record.request.kind == Kind::recv;
}

// Where one rank is, in words, and its last completed operation to order by.
struct Position {
  std::uint64_t completed = 0;
  std::string words;
};

Position position_of(const FlightLog& log) {
  Position out;
  std::string last = "has completed nothing";
  std::string waits;
  for (const FlightRecord& record : log.records) {
    if (record.completed_ns == 0) {
      waits += (waits.empty() ? ", waits in " : ", ") + record.request.describe();
    } else if (!is_transfer(record)) {
      out.completed = record.request.seq;
      last = "last completed " + record.request.describe();
    }
  }
  out.words = last + waits;
  return out;
}

}  // namespace

std::string describe_flights(const std::vector<FlightLog>& logs) {
  // Those that are furthest behind first: they are what the others wait for.
  std::map<std::pair<std::uint64_t, std::string>, std::vector<int>> groups;
  for (const FlightLog& log : logs) {
    const Position at = position_of(log);
    groups[{at.completed, at.words}].push_back(log.rank);
  }
  std::string out;
  for (auto& [where, ranks] : groups) {
    std::ranges::sort(ranks);
    std::string names;
    for (std::size_t i = 0; i < ranks.size(); ++i) {
      if (i == 8) {
        names += fmt::format(", … ({} in all)", ranks.size());
        break;
      }
      names += (i == 0 ? "" : ", ") + std::to_string(ranks[i]);
    }
    out += fmt::format("{} {} {}\n", ranks.size() == 1 ? "rank" : "ranks", names, where.second);
  }
  return out;
}

}  // namespace muster::collective
