// SPDX-License-Identifier: Apache-2.0
#include "status/time_account.hpp"

#include "base/check.hpp"

#include <algorithm>
#include <numeric>

namespace muster {

double TimeSpent::goodput() const {
  return total == 0 ? 0 : static_cast<double>(of(TimeUse::running)) / static_cast<double>(total);
}

void TimeSpent::add(TimeUse use, Micros amount) {
  uses.at(static_cast<std::size_t>(use)) += amount;
  total += amount;
}

void TimeSpent::add(const TimeSpent& other) {
  for (std::size_t i = 0; i < uses.size(); ++i) {
    add(static_cast<TimeUse>(i), other.uses.at(i));
  }
  is_lost_known = is_lost_known && other.is_lost_known;
}

void TimeAccount::advance(Micros now) {
  if (begun_ == 0) {
    begun_ = now;
    now_ = now;
  }
  const Micros passed = std::max<Micros>(0, now - now_);
  all_.add(use_, passed);
  unsaved_ += use_ == TimeUse::running ? passed : 0;
  now_ += passed;
}

void TimeAccount::reassign(TimeUse from, TimeUse to, Micros at_most) {
  const Micros lost = from == TimeUse::running ? discarded_ + rolled_back_ : 0;
  const Micros amount = std::clamp<Micros>(at_most, 0, all_.of(from) - lost);
  all_.add(from, -amount);
  all_.add(to, amount);
  if (from == TimeUse::running) {
    unsaved_ = std::max<Micros>(0, unsaved_ - amount);
  }
}

void TimeAccount::save() {
  has_saved_ = true;
  unsaved_ = 0;
}

void TimeAccount::discard() {
  discarded_ += unsaved_;
  unsaved_ = 0;
}

void TimeAccount::roll_back(Micros at_most) {
  const Micros amount = std::clamp<Micros>(at_most, 0, unsaved_);
  rolled_back_ += amount;
  unsaved_ -= amount;
}

TimeSpent TimeAccount::spent() const {
  TimeSpent out = all_;
  const Micros lost = rolled_back_ + (has_saved_ ? discarded_ : 0);
  MUSTER_CHECK(lost >= 0 && lost <= out.of(TimeUse::running));
  out.add(TimeUse::running, -lost);
  out.add(TimeUse::lost, lost);
  out.is_lost_known = has_saved_ || discarded_ == 0;
  MUSTER_CHECK(out.total == now_ - begun_);
  MUSTER_CHECK(out.total == std::reduce(out.uses.begin(), out.uses.end(), Micros{0}));
  return out;
}

}  // namespace muster
