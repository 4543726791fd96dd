// SPDX-License-Identifier: Apache-2.0
#include "gradients.hpp"

#include <algorithm>
#include <utility>

namespace digits {
namespace {

using muster::Communicator;
using muster::DType;
using muster::GradientSyncOptions;
using muster::kHost;

// With 4 terms a gradient can be up to ±4, with a resolution of a millionth.
constexpr float kStep = 0x1p-20F;

GradientSyncOptions sync_options(const GradientSettings& settings) {
  GradientSyncOptions options;
  // The mean over micro-batches is computed from the sum, because dividing by the number of ranks
  // would make the result depend on that number.
  options.average = false;
  options.device = settings.device;
  if (settings.bucket_bytes > 0) {
    options.first_bucket = settings.bucket_bytes;
    options.bucket_cap = settings.bucket_bytes;
  }
  return options;
}

}  // namespace

Gradients::Gradients(muster::GradientSync sync, const GradientSettings& settings)
    : sync_(std::move(sync)), grid_(kStep, settings.terms) {}

Result<Gradients> Gradients::create(Communicator& communicator,
                                    const std::vector<Parameter>& parameters,
                                    const GradientSettings& settings) {
  auto sync = muster::GradientSync::create(communicator, sync_options(settings));
  if (!sync) {
    return sync.error();
  }
  Gradients out(std::move(*sync), settings);
  if (auto done = out.prepare(parameters); !done) {
    return done.error();
  }
  if (settings.device != kHost) {  // after the library, whose error names what is missing
    auto gpu = CudaCopy::open(settings.device);
    if (!gpu) {
      return gpu.error();
    }
    out.gpu_ = *gpu;
    for (const Parameter& parameter : parameters) {
      out.staging_.emplace_back(parameter.values.size());
    }
    out.sums_.assign(out.staging_.begin(), out.staging_.end());
  }
  return out;
}

Result<void> Gradients::prepare(const std::vector<Parameter>& parameters) {
  for (const Parameter& parameter : parameters) {
    if (auto id = sync_.add(parameter.name, DType::f32, parameter.values.size()); !id) {
      return id.error();
    }
    sums_.emplace_back(static_cast<float*>(nullptr), parameter.values.size());
  }
  return sync_.finalize();
}

// When the library has rebuilt its buckets, they have new addresses.
Result<void> Gradients::find_sums() {
  for (std::size_t i = 0; !gpu_ && i < sums_.size(); ++i) {
    auto memory = sync_.grad(static_cast<int>(i));
    if (!memory) {
      return memory.error();
    }
    sums_[i] = {static_cast<float*>(*memory), sums_[i].size()};
  }
  return {};
}

Result<void> Gradients::begin(bool first, bool last) {
  if (auto found = find_sums(); !found) {
    return found;
  }
  for (const std::span<float> sum : sums_) {
    if (first) {
      std::ranges::fill(sum, 0.0F);
    }
  }
  last_ = last;
  return sync_.begin(last);
}

Result<void> Gradients::add(std::size_t parameter, std::span<const float> gradient) {
  const std::span<float> sum = sums_[parameter];
  for (std::size_t i = 0; i < sum.size(); ++i) {
    sum[i] += grid_.nearest(gradient[i]);
  }
  const int id = static_cast<int>(parameter);
  if (gpu_ && last_) {
    auto memory = sync_.grad(id);
    auto done = memory ? gpu_->upload(*memory, sum) : memory.error();
    if (!done) {
      return done;
    }
  }
  return sync_.mark_ready(id);
}

Result<void> Gradients::end() {
  if (auto stats = sync_.wait(); !stats) {
    return stats.error();
  }
  for (std::size_t i = 0; gpu_ && last_ && i < sums_.size(); ++i) {
    auto memory = sync_.grad(static_cast<int>(i));
    auto done = memory ? gpu_->download(sums_[i], *memory) : memory.error();
    if (!done) {
      return done;
    }
  }
  return find_sums();
}

}  // namespace digits
