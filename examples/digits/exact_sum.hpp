// SPDX-License-Identifier: Apache-2.0
// Grid: floating-point sums that do not depend on the order of their terms. (a+b)+(c+d) and
// ((a+b)+c)+d differ by rounding. But if every term is a multiple of one step, and no sum exceeds
// 2^24 steps (f32; 2^53 for f64), then every intermediate sum is representable: nothing is rounded,
// and any order gives the same bits. Terms are rounded to the step before they are added
// ("pre-rounding": J. Demmel, H. D. Nguyen, Fast Reproducible Floating-Point Summation, 2013; there
// the step is derived from the data, here it is fixed). Value type; pure.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>

namespace digits {

template <class Real>
class Grid {
 public:
  // For sums of up to `terms` terms; `step` is a power of two.
  Grid(Real step, std::size_t terms) : step_(step) {
    const Real steps = std::ldexp(Real{1}, std::numeric_limits<Real>::digits);
    limit_ = std::floor(steps / static_cast<Real>(terms)) * step;
  }

  // The nearest multiple of the step. Values beyond the limit become the limit on every rank; NaN
  // stays NaN.
  [[nodiscard]] Real nearest(Real value) const {
    return std::clamp(std::rint(value / step_) * step_, -limit_, limit_);
  }

  [[nodiscard]] Real limit() const { return limit_; }

 private:
  Real step_;
  Real limit_;
};

}  // namespace digits
