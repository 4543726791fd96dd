// SPDX-License-Identifier: Apache-2.0
#include "agent/watch/file_timers.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <cstdint>
#include <limits>

namespace muster {
namespace {

template <typename T>
std::optional<T> field(const nlohmann::json& json, const char* name) {
  const auto found = json.find(name);
  if (found == json.end() || !found->is_number_integer()) {
    return std::nullopt;
  }
  const auto value = found->get<std::int64_t>();
  const bool fits =
      value >= std::numeric_limits<T>::min() && value <= std::numeric_limits<T>::max();
  return fits ? std::optional(static_cast<T>(value)) : std::nullopt;
}

// In order of expiry, but a timer with a signal precedes all others.
bool precedes(const FileTimer& left, const FileTimer& right) {
  const bool left_kills = left.signal > 0;
  const bool right_kills = right.signal > 0;
  return left_kills != right_kills ? left_kills : left.expires < right.expires;
}

}  // namespace

std::optional<FileTimer> parse_file_timer(std::string_view line) {
  const auto json = nlohmann::json::parse(line, nullptr, false);
  if (!json.is_object()) {
    return std::nullopt;
  }
  const auto pid = field<pid_t>(json, "pid");
  const auto signal = field<int>(json, "signal");
  const auto scope = json.find("scope_id");
  const auto expires = json.find("expiration_time");
  if (!pid || *pid <= 0 || !signal || *signal > SIGRTMAX || scope == json.end() ||
      !scope->is_string() || expires == json.end() || !expires->is_number()) {
    return std::nullopt;
  }
  const FileTimer out{
      *pid, scope->get<std::string>(), 0, expires->get<double>(), std::max(*signal, 0)};
  return std::isfinite(out.expires) ? std::optional(out) : std::nullopt;
}

bool FileTimers::handle(std::string_view line, double now) {
  auto timer = line.size() <= kLineMax ? parse_file_timer(line) : std::nullopt;
  if (!timer) {
    return false;
  }
  const std::pair key(timer->pid, timer->scope);
  if (timer->expires < 0) {
    timers_.erase(key);
    return true;
  }
  if (timers_.size() >= kTimersMax && !timers_.contains(key)) {
    return false;
  }
  timer->asked = now;
  timers_.insert_or_assign(key, std::move(*timer));
  return true;
}

std::size_t FileTimers::take(std::string_view bytes, double now) {
  std::size_t dropped = 0;
  for (auto end = bytes.find('\n'); end != std::string_view::npos; end = bytes.find('\n')) {
    begun_ += bytes.substr(0, std::min(end, kLineMax));
    dropped += handle(begun_, now) ? 0U : 1U;
    begun_.clear();
    bytes.remove_prefix(end + 1);
  }
  // One byte more than a valid line may have, so that a line that is too long stays invalid.
  begun_ += bytes.substr(0, kLineMax + 1 - std::min(begun_.size(), kLineMax + 1));
  return dropped;
}

void FileTimers::forget(pid_t pid) {
  std::erase_if(timers_, [pid](const auto& entry) { return entry.first.first == pid; });
}

void FileTimers::clear() {
  timers_.clear();
  begun_.clear();
}

std::optional<double> FileTimers::next() const {
  const auto first =
      std::ranges::min_element(timers_, {}, [](const auto& entry) { return entry.second.expires; });
  return first == timers_.end() ? std::nullopt : std::optional(first->second.expires);
}

std::vector<FileTimer> FileTimers::expire(double now) {
  std::map<pid_t, FileTimer> first;
  for (const auto& [key, timer] : timers_) {
    if (timer.expires > now) {
      continue;
    }
    const auto [at, is_new] = first.emplace(key.first, timer);
    if (!is_new && precedes(timer, at->second)) {
      at->second = timer;
    }
  }
  std::vector<FileTimer> out;
  for (auto& [pid, timer] : first) {
    forget(pid);
    out.push_back(std::move(timer));
  }
  std::ranges::sort(out, {}, &FileTimer::expires);
  return out;
}

}  // namespace muster
