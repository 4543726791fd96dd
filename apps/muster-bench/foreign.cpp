// SPDX-License-Identifier: Apache-2.0
#include "apps/muster-bench/foreign.hpp"

#include "apps/muster-bench/child.hpp"

#include <algorithm>
#include <array>
#include <fstream>
#include <sstream>
#include <string>

#include <unistd.h>

namespace muster::bench {
namespace {

// utime + stime + those of its children that were waited for.
long long ticks_of(pid_t pid) {
  std::ifstream stat("/proc/" + std::to_string(pid) + "/stat");
  std::string line;
  std::getline(stat, line);
  const auto end = line.rfind(')');
  if (end == std::string::npos) {
    return 0;
  }
  std::istringstream rest(line.substr(end + 1));
  std::string skipped;
  for (int i = 0; i < 11; ++i) {
    rest >> skipped;
  }
  long long sum = 0;
  for (long long part = 0, i = 0; i < 4 && rest >> part; ++i) {
    sum += part;
  }
  return sum;
}

}  // namespace

ForeignMeter::ForeignMeter() : begin_(now()) {}

ForeignMeter::Ticks ForeignMeter::now() {
  // user nice system idle iowait irq softirq steal; interrupts are nobody's.
  std::ifstream stat("/proc/stat");
  std::string name;
  stat >> name;
  std::array<long long, 8> parts{};
  for (auto& part : parts) {
    stat >> part;
  }
  Ticks ticks;
  ticks.busy = parts[0] + parts[1] + parts[2] + parts[7];
  for (const auto part : parts) {
    ticks.all += part;
  }
  for (const pid_t pid : family_of(getpid())) {
    ticks.own += ticks_of(pid);
  }
  return ticks;
}

double ForeignMeter::percent() const {
  const auto end = now();
  const auto all = end.all - begin_.all;
  const auto foreign = (end.busy - begin_.busy) - (end.own - begin_.own);
  return all > 0 ? 100.0 * static_cast<double>(std::max(0LL, foreign)) / static_cast<double>(all)
                 : 0;
}

}  // namespace muster::bench
