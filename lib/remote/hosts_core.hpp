// SPDX-License-Identifier: Apache-2.0
// HostsCore: decides when the agents on other hosts start, how to handle a lost host, when the job
// is over, and its exit code. Pure: it consumes events with their times and produces effects.
// HostsLauncher performs the I/O for HostsCore.
#pragma once

#include "base/log_level.hpp"
#include "base/time.hpp"
#include "remote/messages.hpp"

#include <cstddef>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace muster {

// If hosts have not answered for this long, a message is printed once.
inline constexpr Duration kReachNotice = std::chrono::seconds(5);
// A remote shell that neither exits nor answers within this time after the retry period is
// abandoned.
inline constexpr Duration kReachTimeout = std::chrono::seconds(60);
// How long to wait for further failures after the first unreachable host.
inline constexpr Duration kMoreFailures = std::chrono::seconds(2);
// The time between closing a remote shell's input and sending SIGKILL.
inline constexpr Duration kCloseTimeout = std::chrono::seconds(5);
// Replaces kCloseTimeout after a second Ctrl-C.
inline constexpr Duration kHurriedCloseTimeout = std::chrono::milliseconds(300);
// How long launchers have to kill their workers after a second Ctrl-C.
inline constexpr Duration kHurriedEndTimeout = std::chrono::seconds(1);
// Additional time after the workers' grace period.
inline constexpr Duration kEndExtra = std::chrono::seconds(10);
inline constexpr std::size_t kNamesShown = 8;

struct HostsCoreSettings {
  std::vector<std::string> names;  // host names, by index
  std::size_t nodes_min = 1;
  Duration grace{};
  Duration retry{};     // how long to retry unreachable hosts
  std::string version;  // required on all hosts
};

namespace hosts_effect {
struct StartAll {};  // all agents have answered: send each its start message

struct PassSignal {
  int signo = 0;
  bool is_own = false;  // muster itself stops the job and has reported why
};

struct Say {
  LogLevel level = LogLevel::error;
  std::string text;
};

struct CloseAll {};  // close the input of all remote shells, which kills all remote processes

struct Finish {  // kill all remaining processes
  int code = 0;
};
}  // namespace hosts_effect

using HostsEffect = std::variant<hosts_effect::StartAll,
                                 hosts_effect::PassSignal,
                                 hosts_effect::Say,
                                 hosts_effect::CloseAll,
                                 hosts_effect::Finish>;
using HostsEffects = std::vector<HostsEffect>;

class HostsCore {
 public:
  HostsCore(HostsCoreSettings settings, TimePoint now);

  void hello(TimePoint now, std::size_t host, const HelloMessage& message, HostsEffects& out);
  // The launcher on that host has exited.
  void ended(TimePoint now, std::size_t host, int code, HostsEffects& out);
  // The host is unreachable or was lost. Ignored after its launcher has exited.
  void lost(TimePoint now, std::size_t host, const std::string& why, HostsEffects& out);
  // An attempt to reach the host has failed and will be retried.
  void retrying(std::size_t host, const std::string& why);
  void signal(TimePoint now, int signo, HostsEffects& out);
  // The guard has died, so no further signals will arrive.
  void guard_lost(TimePoint now, HostsEffects& out);
  // The job cannot be started; `why` is the reason.
  void give_up(TimePoint now, const std::string& why, HostsEffects& out);
  // All remote shells have exited.
  void all_gone(HostsEffects& out);
  void tick(TimePoint now, HostsEffects& out);

  [[nodiscard]] std::optional<TimePoint> next_deadline() const { return deadline_; }

  // True if the job is stopping. Unread output must not delay the stop.
  [[nodiscard]] bool is_ending() const { return ending_ || phase_ >= Phase::closing; }

 private:
  enum class Phase { reaching, running, closing, done };
  enum class State { expected, here, ended, lost };

  [[nodiscard]] std::size_t count(State state) const;
  [[nodiscard]] std::string names_of(State state) const;
  void look_at_answers(TimePoint now, HostsEffects& out);
  [[nodiscard]] std::string last_trouble() const;
  void tick_reaching(TimePoint now, HostsEffects& out);
  void add_unreached(const std::string& why);
  void say_unreached(HostsEffects& out);
  void hurry(TimePoint now, int signo);
  void lose_running(TimePoint now, const std::string& why, HostsEffects& out);
  void end_if_over(TimePoint now, HostsEffects& out);
  [[nodiscard]] int job_code() const;
  void close(TimePoint now, int code, HostsEffects& out);
  void finish(HostsEffects& out);

  HostsCoreSettings settings_;
  Phase phase_ = Phase::reaching;
  std::vector<State> states_;
  std::vector<std::string> unreached_;  // reasons, in the order of the failures
  std::vector<std::string> trouble_;    // why each host's last attempt failed
  std::string last_loss_;
  TimePoint reach_end_;
  bool noticed_ = false;
  bool ending_ = false;            // all launchers have been asked to stop
  bool hurried_ = false;           // they have been asked a second time
  std::optional<int> interrupt_;   // the signal from the user, if any
  std::size_t ended_well_ = 0;     // number of launchers that succeeded
  std::optional<int> first_code_;  // code of the first launcher that failed
  std::optional<int> own_code_;    // overrides the codes of the launchers
  int code_ = 0;
  std::optional<TimePoint> deadline_;
};

}  // namespace muster
