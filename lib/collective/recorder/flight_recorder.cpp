// SPDX-License-Identifier: Apache-2.0
#include "collective/recorder/flight_recorder.hpp"

#include "base/clock.hpp"
#include "base/plural.hpp"
#include "collective/shm/shared_memory.hpp"

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

constexpr std::uint64_t kMagic = 0x3254484c4654534d;  // "MSTFLHT2"
constexpr std::size_t kNameBytes = 64;
constexpr std::size_t kMostEntries = 1UL << 20;
constexpr std::size_t kRecorderPage = 4096;  // alignment of recorders in shared memory

// Maximum number of slots to scan in a file, regardless of its claimed size.
constexpr std::size_t kMostPlaces = 1UL << 16;

std::uint64_t nanoseconds(TimePoint when) {
  return static_cast<std::uint64_t>(when.time_since_epoch().count());
}

// The name of the recorder's file. Slashes in the communicator's name become dots.
std::string file_name(const FlightRecorder::Place& place) {
  std::string name = place.name;
  std::ranges::replace(name, '/', '.');
  return fmt::format("flight-{}-epoch{}-rank{}.ring", name, place.epoch, place.rank);
}

}  // namespace

// Other ranks may read while we write. All accesses are single words; the ticket shows whether the
// words belong to the same operation.
template <class T>
void put(T& word, T value) {
  std::atomic_ref(word).store(value, std::memory_order_relaxed);
}

template <class T>
T peek(const T& word) {
  return std::atomic_ref(const_cast<T&>(word)).load(std::memory_order_relaxed);
}

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
  std::atomic<std::uint64_t> waits;
  std::atomic<std::uint64_t> waited_ns;
};

struct FlightRecorder::Entry {
  std::atomic<std::uint64_t> ticket;  // from 1; written last
  std::uint64_t seq;
  std::uint64_t count;
  std::int32_t root;
  std::uint8_t kind;
  std::uint8_t op;
  std::uint8_t dtype;
  std::uint8_t on_gpu;  // GPU operations are numbered separately
  std::atomic<std::uint64_t> queued;
  std::atomic<std::uint64_t> started;
  std::atomic<std::uint64_t> completed;
  std::uint64_t more;
};

std::size_t FlightRecorder::bytes_for(std::size_t entries) {
  const std::size_t bytes = sizeof(Head) + std::min(entries, kMostEntries) * sizeof(Entry);
  return entries == 0 ? 0 : (bytes + kRecorderPage - 1) / kRecorderPage * kRecorderPage;
}

Result<std::unique_ptr<FlightRecorder>> FlightRecorder::open(const Place& place) {
  std::unique_ptr<FlightRecorder> out(new FlightRecorder());
  out->entries_ = std::min(place.entries, kMostEntries);
  if (out->entries_ == 0) {
    return out;
  }
  const auto shared = place.folder.empty() ? out->open_shared(place) : Result<bool>(false);
  MUSTER_RETURN_IF_ERROR(shared);
  if (!*shared) {
    MUSTER_RETURN_IF_ERROR(out->open_own(place));
  }
  return out;
}

// Returns false if the shared memory has no space for this recorder.
Result<bool> FlightRecorder::open_shared(const Place& place) {
  const std::size_t room =
      place.shared ? place.shared->size() / place.ranks / kRecorderPage * kRecorderPage : 0;
  if (room < bytes_for(entries_)) {
    return false;
  }
  shared_ = place.shared;
  // Unless the memory is reserved up front, running out of memory would kill the program with
  // SIGBUS.
  MUSTER_RETURN_IF_ERROR(shared_->reserve(place.self * room, room));
  const auto base = shared_->map();
  MUSTER_RETURN_IF_ERROR(base);
  path_ = fmt::format("/proc/{}/fd/{}", ::getpid(), shared_->fd());
  rings_ = *base;
  room_ = room;
  begin(*base + place.self * room, place);
  return true;
}

Result<void> FlightRecorder::open_own(const Place& place) {
  const std::size_t bytes = bytes_for(entries_);
  const auto size = static_cast<off_t>(bytes);
  if (auto allowed = allowed_by_file_limit(bytes); !allowed) {
    return allowed;
  }
  if (!place.folder.empty()) {
    path_ = place.folder + "/" + file_name(place);
    fd_ = UniqueFd(::open(path_.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
    // Unless the blocks are allocated up front, a full disk would kill the program with SIGBUS.
    if (fd_ && ::posix_fallocate(fd_.get(), 0, size) != 0) {
      static_cast<void>(::unlink(path_.c_str()));
      fd_.reset();
    }
  }
  if (!fd_) {
    fd_ = UniqueFd(::memfd_create(file_name(place).c_str(), MFD_CLOEXEC));
    if (!fd_ || ::fallocate(fd_.get(), 0, 0, size) != 0) {
      return std::unexpected(
          system_failure("cannot allocate memory for the flight recorder", errno));
    }
    path_ = fmt::format("/proc/{}/fd/{}", ::getpid(), fd_.get());
  }
  void* const at = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd_.get(), 0);
  if (at == MAP_FAILED) {
    return std::unexpected(system_failure("cannot map the flight recorder", errno));
  }
  mapped_ = bytes;
  begin(at, place);
  return {};
}

void FlightRecorder::begin(void* memory, const Place& place) {
  head_ = static_cast<Head*>(memory);
  ring_ = reinterpret_cast<Entry*>(static_cast<char*>(memory) + sizeof(Head));
  head_->rank = place.rank;
  head_->size = place.size;
  head_->epoch = place.epoch;
  head_->entries = entries_;
  head_->pid = ::getpid();
  std::memcpy(head_->name, place.name.data(), std::min(place.name.size(), kNameBytes - 1));
  // Store this last: a reader that sees it may use the rest of the header.
  std::atomic_ref(head_->magic).store(kMagic, std::memory_order_release);
}

FlightRecorder::~FlightRecorder() {
  if (mapped_ > 0) {
    ::munmap(head_, mapped_);
  }
}

FlightRecorder::Entry* FlightRecorder::entry(std::uint64_t ticket) {
  return ticket == 0 ? nullptr : &ring_[(ticket - 1) % entries_];
}

std::uint64_t FlightRecorder::queued(const Request& request, TimePoint now) {
  if (entries_ == 0) {
    return 0;
  }
  // Several threads record operations (the caller's and those of the queues); each operation gets
  // its own entry.
  const std::uint64_t ticket = head_->next.fetch_add(1, std::memory_order_relaxed) + 1;
  Entry& e = *entry(ticket);
  // A sequence lock with one writer per entry: clear the ticket, write the fields, set the ticket.
  // The fence keeps the fields after the first store, and the release keeps them before the last
  // store. A rank killed in between leaves an entry without a ticket; readers skip it.
  e.ticket.store(0, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_release);
  put(e.seq, request.seq);
  put(e.count, request.count);
  put(e.root, request.root);
  put(e.kind, static_cast<std::uint8_t>(request.kind));
  put(e.op, static_cast<std::uint8_t>(request.op));
  put(e.dtype, static_cast<std::uint8_t>(request.dtype));
  put(e.on_gpu, static_cast<std::uint8_t>(request.device == kHost ? 0 : 1));
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

void FlightRecorder::waited(Duration time) {
  if (entries_ > 0 && time > Duration::zero()) {
    head_->waits.fetch_add(1, std::memory_order_relaxed);
    head_->waited_ns.fetch_add(static_cast<std::uint64_t>(time.count()), std::memory_order_relaxed);
  }
}

// Returns the newest match. Operations with the same kind and number may involve different peers.
FlightRecorder::Entry* FlightRecorder::find(const Request& request) {
  const std::uint64_t newest = entries_ == 0 ? 0 : head_->next.load(std::memory_order_relaxed);
  for (std::uint64_t back = 0; back < std::min<std::uint64_t>(newest, entries_); ++back) {
    Entry* const e = entry(newest - back);
    if (e->ticket.load(std::memory_order_acquire) == newest - back && e->seq == request.seq &&
        e->kind == static_cast<std::uint8_t>(request.kind) && e->root == request.root &&
        (e->on_gpu != 0) == (request.device != kHost)) {
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

// Lock-free: skips entries that were overwritten during the read.
std::optional<Request> FlightRecorder::read(const Entry& e, std::uint64_t ticket) {
  if (e.ticket.load(std::memory_order_acquire) != ticket || peek(e.on_gpu) == 0) {
    return std::nullopt;
  }
  Request out;
  out.kind = static_cast<Kind>(peek(e.kind));
  out.op = static_cast<Op>(peek(e.op));
  out.dtype = static_cast<DType>(peek(e.dtype));
  out.count = peek(e.count);
  out.root = peek(e.root);
  out.seq = peek(e.seq);
  // The loads above must not move past the second load of the ticket. If the ticket is unchanged,
  // none of them saw a later operation.
  std::atomic_thread_fence(std::memory_order_acquire);
  return e.ticket.load(std::memory_order_relaxed) == ticket ? std::optional(out) : std::nullopt;
}

std::optional<Request> FlightRecorder::called_by(std::size_t place, const Request& mine) const {
  if (rings_ == nullptr) {
    return std::nullopt;
  }
  const char* const at = rings_ + place * room_;
  const auto& head = *reinterpret_cast<const Head*>(at);
  const auto* const ring = reinterpret_cast<const Entry*>(at + sizeof(Head));
  const bool has_come =
      std::atomic_ref(const_cast<std::uint64_t&>(head.magic)).load(std::memory_order_acquire) ==
      kMagic;
  const std::uint64_t entries = has_come ? head.entries : 0;
  if (entries == 0 || entries > kMostEntries || bytes_for(entries) > room_) {
    return std::nullopt;
  }
  const bool transfers = is_transfer(mine.kind);
  const Kind other_side = mine.kind == Kind::send ? Kind::recv : Kind::send;
  const std::uint64_t newest = head.next.load(std::memory_order_acquire);
  for (std::uint64_t back = 0; back < std::min(newest, entries); ++back) {
    const std::uint64_t ticket = newest - back;
    const auto theirs = read(ring[(ticket - 1) % entries], ticket);
    const bool of_one_kind =
        theirs && (transfers ? theirs->kind == other_side && theirs->root == head_->rank
                             : !is_transfer(theirs->kind));
    if (of_one_kind && theirs->seq <= mine.seq) {
      return theirs->seq == mine.seq ? theirs : std::nullopt;
    }
  }
  return std::nullopt;
}

// A copy of a recorder's header and its newest entries, oldest first.
struct FlightRecorder::Ring {
  alignas(Head) std::array<char, sizeof(Head)> raw_head{};
  std::vector<char> raw;
  std::uint64_t count = 0;

  [[nodiscard]] const Head& head() const { return *reinterpret_cast<const Head*>(raw_head.data()); }

  [[nodiscard]] std::string name() const {
    return {head().name, ::strnlen(head().name, kNameBytes)};
  }

  [[nodiscard]] const Entry& entry(std::uint64_t i) const {
    return *reinterpret_cast<const Entry*>(raw.data() + i * sizeof(Entry));
  }

  [[nodiscard]] std::uint64_t ticket(std::uint64_t i) const {
    return head().next.load() - count + i + 1;
  }

  bool read(int fd, off_t at, off_t end, std::uint64_t newest);
  bool read_entries(int fd, off_t at, std::uint64_t from, std::uint64_t to);
  [[nodiscard]] FlightLog log() const;

  // Passes each recorder in the file to `take`.
  template <class Take>
  static void each(int fd, std::uint64_t newest, const Take& take);
};

// Appends the entries in this range of the ring.
bool FlightRecorder::Ring::read_entries(int fd, off_t at, std::uint64_t from, std::uint64_t to) {
  const std::size_t had = raw.size();
  const std::size_t bytes = (to - from) * sizeof(Entry);
  raw.resize(had + bytes);
  const auto place = at + static_cast<off_t>(sizeof(Head) + from * sizeof(Entry));
  return ::pread(fd, raw.data() + had, bytes, place) == static_cast<ssize_t>(bytes);
}

// Returns false if no recorder starts at offset `at`. The contents are untrusted, because user
// programs can write to this memory.
bool FlightRecorder::Ring::read(int fd, off_t at, off_t end, std::uint64_t newest) {
  if (::pread(fd, raw_head.data(), sizeof(Head), at) != static_cast<ssize_t>(sizeof(Head))) {
    return false;
  }
  const std::uint64_t entries = head().entries;
  if (head().magic != kMagic || entries == 0 || entries > kMostEntries ||
      end - at < static_cast<off_t>(sizeof(Head) + entries * sizeof(Entry))) {
    return false;
  }
  const std::uint64_t next = head().next.load();
  count = std::min({next, entries, newest});
  const std::uint64_t first = (next - count) % entries;
  const std::uint64_t straight = std::min(count, entries - first);
  return read_entries(fd, at, first, first + straight) && read_entries(fd, at, 0, count - straight);
}

template <class Take>
void FlightRecorder::Ring::each(int fd, std::uint64_t newest, const Take& take) {
  struct stat facts {};

  if (::fstat(fd, &facts) != 0) {
    return;
  }
  off_t at = 0;
  for (std::size_t place = 0; place < kMostPlaces && at < facts.st_size; ++place) {
    Ring ring;
    const bool is_one = ring.read(fd, at, facts.st_size, newest);
    if (is_one) {
      take(ring);
    }
    // The slot of a rank that has not arrived is all zeros. Skip it page by page.
    at += static_cast<off_t>(is_one ? bytes_for(ring.head().entries) : kRecorderPage);
  }
}

FlightLog FlightRecorder::Ring::log() const {
  FlightLog log;
  log.name = name();
  log.rank = head().rank;
  log.size = head().size;
  log.pid = head().pid;
  log.epoch = head().epoch;
  for (std::uint64_t i = 0; i < count; ++i) {
    const Entry& e = entry(i);
    // Compare tickets: if an entry was being written or was overwritten, its ticket differs.
    if (e.ticket.load() != ticket(i)) {
      continue;
    }
    FlightRecord record;
    record.request.kind = static_cast<Kind>(e.kind);
    record.request.op = static_cast<Op>(e.op);
    record.request.dtype = static_cast<DType>(e.dtype);
    record.request.count = e.count;
    record.request.root = e.root;
    record.request.seq = e.seq;
    record.on_gpu = e.on_gpu != 0;
    record.queued_ns = e.queued.load();
    record.started_ns = e.started.load();
    record.completed_ns = e.completed.load();
    log.records.push_back(record);
  }
  return log;
}

// How many of the newest records to read. They include all operations in progress, because a rank
// has only a few operations in progress at a time.
constexpr std::uint64_t kNewest = 64;

std::vector<FlightProgress> read_flight_progress(int fd) {
  using Ring = FlightRecorder::Ring;
  std::vector<FlightProgress> out;
  Ring::each(fd, kNewest, [&out](const Ring& ring) {
    std::uint64_t open = 0;
    for (std::uint64_t i = 0; i < ring.count; ++i) {
      open += ring.entry(i).completed.load() == 0 ? 1U : 0U;
    }
    out.push_back({ring.head().pid, ring.head().next.load() - open});
  });
  return out;
}

std::vector<FlightWaits> read_flight_waits(int fd) {
  std::vector<FlightWaits> out;
  FlightRecorder::Ring::each(fd, 0, [&out](const auto& ring) {
    const auto& from = ring.head();
    out.push_back({ring.name(), from.epoch, from.pid, from.next, from.waits, from.waited_ns});
  });
  return out;
}

Result<std::vector<FlightLog>> read_flight_recorders(const std::string& path,
                                                     std::uint64_t newest) {
  using Ring = FlightRecorder::Ring;
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd) {
    return std::unexpected(system_failure("cannot read " + path, errno));
  }
  std::vector<FlightLog> logs;
  Ring::each(fd.get(), newest, [&logs](const Ring& ring) { logs.push_back(ring.log()); });
  if (logs.empty()) {
    return failure(Errc::invalid_argument, path + " is not a flight recorder");
  }
  return logs;
}

namespace {

std::string described(const FlightRecord& record) {
  return record.request.describe() + (record.on_gpu ? " on a GPU" : "");
}

// One rank's position as text, and its last completed operation as sort key.
struct Position {
  std::uint64_t completed = 0;
  std::string text;
};

Position position_of(const FlightLog& log) {
  Position out;
  std::string last = "completed no operation";
  std::string waits;
  for (const FlightRecord& record : log.records) {
    if (record.completed_ns == 0) {
      waits += (waits.empty() ? ", waiting in " : ", ") + described(record);
    } else if (!is_transfer(record.request.kind)) {
      out.completed = record.request.seq;
      last = "last completed " + described(record);
    }
  }
  out.text = last + waits;
  return out;
}

}  // namespace

std::string describe_flight_recorders(const std::vector<FlightLog>& logs) {
  // List the ranks that are furthest behind first, because the others wait for them.
  std::map<std::pair<std::uint64_t, std::string>, std::vector<int>> groups;
  for (const FlightLog& log : logs) {
    const Position at = position_of(log);
    groups[{at.completed, at.text}].push_back(log.rank);
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
    out += fmt::format("{} {} {}\n", agreeing(ranks.size(), "rank", "ranks"), names, where.second);
  }
  return out;
}

}  // namespace muster::collective
