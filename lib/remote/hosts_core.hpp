// SPDX-License-Identifier: Apache-2.0
// HostsCore: when the agents of other machines are started, what the loss of one means, when the
// job is over and with which code. Pure: events and the time come in, effects come out; the shell
// around it is HostsLauncher.
#pragma once

#include "base/log.hpp"
#include "base/time.hpp"
#include "remote/messages.hpp"

#include <cstddef>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace muster {

// Nobody has answered for so long: said once.
inline constexpr Duration kReachNotice = std::chrono::seconds(5);
// A remote shell that neither exits nor answers is given up, this long after the last attempts.
inline constexpr Duration kReachTimeout = std::chrono::seconds(60);
// After the first machine that cannot be reached, others may say so too.
inline constexpr Duration kMoreFailures = std::chrono::seconds(2);
// From the end of its input to SIGKILL, for a remote shell.
inline constexpr Duration kCloseTimeout = std::chrono::seconds(5);
// The same after a second Ctrl-C, and how long launchers have to kill their workers then.
inline constexpr Duration kHurriedCloseTimeout = std::chrono::milliseconds(300);
inline constexpr Duration kHurriedEndTimeout = std::chrono::seconds(1);
// Beyond the grace that the workers have.
inline constexpr Duration kEndExtra = std::chrono::seconds(10);
inline constexpr std::size_t kNamesShown = 8;

struct HostsCoreSettings {
  std::vector<std::string> names;  // of the machines, by place
  std::size_t nodes_min = 1;
  Duration grace{};
  Duration retry{};     // for further attempts to reach a machine
  std::string version;  // that all must have
};

namespace hosts_effect {
struct StartAll {};  // every agent is there: tell each what to run

struct PassSignal {
  int signo = 0;
  bool is_own = false;  // we stop the job, and have said why
};

struct Say {
  LogLevel level = LogLevel::error;
  std::string text;
};

struct CloseAll {};  // end the input of all remote shells: what is behind them ends at once

struct Finish {  // whatever is left is killed
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
  // The launcher on that machine has ended.
  void ended(TimePoint now, std::size_t host, int code, HostsEffects& out);
  // The machine cannot be reached, or no longer. Means nothing after its end.
  void lost(TimePoint now, std::size_t host, const std::string& why, HostsEffects& out);
  // An attempt to reach it has failed, and another one follows.
  void retrying(std::size_t host, const std::string& why);
  void signal(TimePoint now, int signo, HostsEffects& out);
  // Nobody is left who could be asked to end.
  void guard_lost(TimePoint now, HostsEffects& out);
  // Nothing can be started: `why`.
  void give_up(TimePoint now, const std::string& why, HostsEffects& out);
  // No remote shell is left.
  void all_gone(HostsEffects& out);
  void tick(TimePoint now, HostsEffects& out);

  [[nodiscard]] std::optional<TimePoint> next_deadline() const { return deadline_; }

  // The job is to end: output that nobody takes must not hold it.
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
  std::vector<std::string> unreached_;  // why, in the order of failing
  std::vector<std::string> trouble_;    // by machine: why its last attempt failed
  std::string last_loss_;
  TimePoint reach_end_;
  bool noticed_ = false;
  bool ending_ = false;            // all were asked to end
  bool hurried_ = false;           // and asked again
  std::optional<int> interrupt_;   // by this signal of the user
  std::size_t ended_well_ = 0;     // machines
  std::optional<int> first_code_;  // of a launcher that did not end well
  std::optional<int> own_code_;    // what the launchers say does not count
  int code_ = 0;
  std::optional<TimePoint> deadline_;
};

}  // namespace muster
