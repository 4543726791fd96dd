// SPDX-License-Identifier: Apache-2.0
// FlightRecorder: a record of one rank's last operations. Other processes can read it while the
// rank runs or hangs, and after the rank was killed. Stored in a file in the job's folder, or in
// memory that is shared by all ranks on the host and the launcher (hand_over.hpp). That memory can
// be opened through /proc/PID/fd while any of these processes is alive. Written with plain stores.
// Resource; any thread.
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

// One operation as read from a recorder.
struct FlightRecord {
  Request request;  // without pointers, device and deadline
  bool on_gpu = false;
  std::uint64_t queued_ns = 0;  // steady clock of the rank's machine; 0 if not queued yet
  std::uint64_t started_ns = 0;
  std::uint64_t completed_ns = 0;
};

struct FlightLog {
  std::string name;  // the communicator's name
  int rank = 0;
  int size = 0;
  int pid = 0;
  std::uint64_t epoch = 0;
  std::vector<FlightRecord> records;  // oldest first
};

class FlightRecorder final : public Progress {
 public:
  struct Place {
    std::string folder = {};  // if empty or not writable, `shared` is used
    std::string name = {};
    int rank = 0;
    int size = 1;
    std::uint64_t epoch = 0;
    std::size_t entries = 2048;  // 0 disables the recorder
    // Memory with space for `ranks` recorders; ours has index `self`. If it is absent or too
    // small, a private memfd is used.
    std::optional<SharedMemory> shared = {};
    std::size_t self = 0;
    std::size_t ranks = 1;
  };

  // Size of one recorder in shared memory, in whole pages.
  [[nodiscard]] static std::size_t bytes_for(std::size_t entries);

  [[nodiscard]] static Result<std::unique_ptr<FlightRecorder>> open(const Place& place);
  ~FlightRecorder() override;

  // Records a call; returns its ticket.
  std::uint64_t queued(const Request& request, TimePoint now);
  void started_at(std::uint64_t ticket, TimePoint now);
  void completed_at(std::uint64_t ticket, TimePoint now);
  // Records that an operation blocked its caller for `time`.
  void waited(Duration time);

  // For callers that do not have the operation's ticket.
  void started(const Request& request) override;
  void completed(const Request& request) override;

  // Finds the operation of the rank at index `place` that corresponds to our GPU operation `mine`:
  // the one with the same number, or the matching transfer. Empty if that rank has not called it
  // yet, if its entry was overwritten, or if no memory is shared.
  [[nodiscard]] std::optional<Request> called_by(std::size_t place, const Request& mine) const;

  // A path at which other processes can read the recorder.
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
  const char* rings_ = nullptr;  // the rings of all ranks that share the memory
  std::size_t room_ = 0;         // bytes per recorder
  std::size_t mapped_ = 0;       // size of our own mapping
  std::size_t entries_ = 0;
  Head* head_ = nullptr;
  Entry* ring_ = nullptr;
};

// Reads the recorders of ranks that may be dead. A file holds one rank's recorder; shared memory
// holds those of all ranks on a host. Returns at most `newest` records each. The contents are
// untrusted. Errors: invalid_argument (no recorder found), system.
[[nodiscard]] Result<std::vector<FlightLog>> read_flight_recorders(
    const std::string& path, std::uint64_t newest = UINT64_MAX);

// A rank's progress: a number that grows with each completed operation.
struct FlightProgress {
  int pid = 0;
  std::uint64_t completed = 0;
};

// Reads the progress of all ranks in a recorder file; only the newest operations are read. Empty if
// the file is not a recorder.
[[nodiscard]] std::vector<FlightProgress> read_flight_progress(int fd);

// How long a rank's host operations have blocked their callers since its communicator was created.
// GPU operations do not count, because they do not block their callers.
struct FlightWaits {
  std::string name;  // the communicator's name
  std::uint64_t epoch = 0;
  int pid = 0;
  std::uint64_t operations = 0;  // operations that were called
  std::uint64_t waits = 0;       // operations that blocked their callers
  std::uint64_t waited_ns = 0;
};

// Reads the waits of all ranks in a recorder file, but no operations. Empty if the file is not
// a recorder file.
[[nodiscard]] std::vector<FlightWaits> read_flight_waits(int fd);

// A summary for diagnosing hangs, such as "rank 3 last completed #118 all_reduce sum f32[6553600];
// 3 others are in #119 …". One line per group of ranks in the same position.
[[nodiscard]] std::string describe_flight_recorders(const std::vector<FlightLog>& logs);

}  // namespace muster::collective
