// SPDX-License-Identifier: Apache-2.0
#include "apps/muster-bench/ranks/ranks.hpp"
#include "base/clock.hpp"

#include <fmt/format.h>

#include <unistd.h>

namespace muster::bench {
namespace {

constexpr int kSettled = 100;  // sums before a rank reports that it is running
constexpr std::size_t kPage = 4096;

bool say(int fd, const std::string& line) {
  return write(fd, line.data(), line.size()) == static_cast<ssize_t>(line.size());
}

}  // namespace

int sum_until_error(collective::Communicator& comm, std::size_t mib, int reports) {
  const bool victim = comm.rank() == comm.size() - 1;
  std::vector<char> ballast(victim ? mib << 20 : 0);
  for (std::size_t at = 0; at < ballast.size(); at += kPage) {
    ballast[at] = 1;
  }
  std::vector<float> data(256, 1);
  const collective::Buffer buffer{data.data(), data.size(), collective::DType::f32};
  for (long long i = 0;; ++i) {
    const auto done = comm.all_reduce(buffer, buffer, collective::Op::max);
    if (!done) {
      const bool right = done.error().code == collective::Errc::peer_failed &&
                         done.error().rank == comm.size() - 1;
      return right && say(reports, fmt::format("{}\n", steady_now().time_since_epoch().count()))
                 ? 0
                 : 1;
    }
    if (i == kSettled && !say(reports, "up\n")) {
      return 1;
    }
  }
}

}  // namespace muster::bench
