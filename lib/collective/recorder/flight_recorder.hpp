// SPDX-License-Identifier: Apache-2.0
// FlightRecorder: the last operations of one rank, in memory that others can read while it runs,
// hangs, or after it was killed: a file in a folder of the job, else memory that all ranks of the
// host share and the launcher holds (hand_over.hpp), which /proc/PID/fd shows while one of
// them lives. Written with plain stores. Resource; any thread.
#pragma once

#include "base/fd.hpp"
#include "collective/error.hpp"
#include "collective/shm/shared_memory.hpp"
#include "collective/transport/transport.hpp"

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace muster::collective {

// One operation as read back.
struct FlightRecord {
  Request request;  // without pointers, device and deadline
  bool on_gpu = false;
  std::uint64_t queued_ns = 0;  // of the steady clock of that machine; 0: not yet
  std::uint64_t started_ns = 0;
  std::uint64_t completed_ns = 0;
};

struct FlightLog {
  std::string name;  // of the communicator
  int rank = 0;
  int size = 0;
  int pid = 0;
  std::uint64_t epoch = 0;
  std::vector<FlightRecord> records;  // oldest first
};

class FlightRecorder final : public Progress {
 public:
  struct Place {
    std::string folder = {};  // empty, or where no file can be made: in `shared`
    std::string name = {};
    int rank = 0;
    int size = 1;
    std::uint64_t epoch = 0;
    std::size_t entries = 2048;  // 0: nothing is recorded
    // Memory with room for `ranks` recorders, of which ours is number `self`. Without it, or where
    // it has no room: a memfd of this process only.
    std::optional<SharedMemory> shared = {};
    std::size_t self = 0;
    std::size_t ranks = 1;
  };

  // What one recorder takes of a shared memory: whole pages.
  [[nodiscard]] static std::size_t bytes_for(std::size_t entries);

  [[nodiscard]] static Result<std::unique_ptr<FlightRecorder>> open(const Place& place);
  ~FlightRecorder() override;

  // The operation was called; gives what completed() wants for it.
  std::uint64_t queued(const Request& request, TimePoint now);
  void started_at(std::uint64_t ticket, TimePoint now);
  void completed_at(std::uint64_t ticket, TimePoint now);
  // The caller of an operation was held up by it for so long.
  void waited(Duration time);

  // Of operations whose ticket the caller does not have.
  void started(const Request& request) override;
  void completed(const Request& request) override;

  // What the rank with that number in the shared memory called, where this one calls `mine` on a
  // GPU: the same number, or the other side of the transfer. None: it has not come to it, or it is
  // long past, or nothing is shared.
  [[nodiscard]] std::optional<Request> called_by(std::size_t place, const Request& mine) const;

  // Where others can read it: a path.
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  struct Head;
  struct Entry;
  struct Ring;
  FlightRecorder() = default;

  [[nodiscard]] Result<bool> open_shared(const Place& place);
  [[nodiscard]] Result<void> open_own(const Place& place);
  void begin(void* memory, const Place& place);
  [[nodiscard]] Entry* entry(std::uint64_t ticket);
  [[nodiscard]] Entry* find(const Request& request);
  [[nodiscard]] static std::optional<Request> read(const Entry& entry, std::uint64_t ticket);

  friend Result<std::vector<FlightLog>> read_flight_recorders(const std::string& path,
                                                              std::uint64_t newest);
  friend std::vector<struct FlightProgress> read_flight_progress(int fd);
  friend std::vector<struct FlightWaits> read_flight_waits(int fd);

  std::string path_;
  UniqueFd fd_;
  std::optional<SharedMemory> shared_;
  const char* rings_ = nullptr;  // of all ranks that share it
  std::size_t room_ = 0;         // of each
  std::size_t mapped_ = 0;       // bytes of our own mapping
  std::size_t entries_ = 0;
  Head* head_ = nullptr;
  Entry* ring_ = nullptr;
};

// Of ranks that may be dead: a file holds the recorder of one, shared memory those of its host. Of
// each so many of its newest records. Any bytes may be in the file: programs write it.
// Errors: invalid_argument (no recorder in it), system.
[[nodiscard]] Result<std::vector<FlightLog>> read_flight_recorders(
    const std::string& path, std::uint64_t newest = UINT64_MAX);

// How far a rank has come: a number that grows with each operation that it completes.
struct FlightProgress {
  int pid = 0;
  std::uint64_t completed = 0;
};

// Of all ranks in a recorder's file, without reading more of it than the newest operations. What is
// no recorder has none.
[[nodiscard]] std::vector<FlightProgress> read_flight_progress(int fd);

// How long a rank's operations on the host have held up their callers, since its communicator was
// made. On a GPU they hold up nobody here.
struct FlightWaits {
  std::string name;  // of the communicator
  std::uint64_t epoch = 0;
  int pid = 0;
  std::uint64_t operations = 0;  // that were called
  std::uint64_t waits = 0;       // of those, that held up their callers
  std::uint64_t waited_ns = 0;
};

// Of all ranks in a recorder's file: no operation is read. What is no recorder has none.
[[nodiscard]] std::vector<FlightWaits> read_flight_waits(int fd);

// "rank 3 last completed #118 all_reduce sum f32[6553600]; 3 others are in #119 …": what a person
// wants to know of ranks that hang. One line for each group of ranks that are at the same place.
[[nodiscard]] std::string describe_flight_recorders(const std::vector<FlightLog>& logs);

}  // namespace muster::collective
