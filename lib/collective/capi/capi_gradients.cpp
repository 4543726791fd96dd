// SPDX-License-Identifier: Apache-2.0
#include "collective/capi/capi_impl.hpp"
#include "collective/gradient_sync.hpp"
#include "muster/gradient_sync.h"

#include <memory>
#include <utility>
#include <vector>

namespace muster::collective {
namespace {

// Converts MUSTER_ON, MUSTER_OFF or 0 (which selects the default) to a bool.
bool switched(int32_t given, bool otherwise) {
  return given == 0 ? otherwise : given > 0;
}

GradientSyncOptions options_of(const muster_gradients_options& o) {
  GradientSyncOptions out;
  out.buckets.first = o.first_bucket > 0 ? o.first_bucket : out.buckets.first;
  out.buckets.cap = o.bucket_cap > 0 ? o.bucket_cap : out.buckets.cap;
  out.average = switched(o.average, out.average);
  if (o.wire != 0) {
    out.wire = static_cast<DType>(o.wire);
  }
  out.owns_memory = switched(o.owns_memory, out.owns_memory);
  out.background = switched(o.background, out.background);
  out.has_unused = switched(o.has_unused, out.has_unused);
  out.reorder = switched(o.reorder, out.reorder);
  out.device = o.on_gpu != 0 ? o.device : kHost;
  return out;
}

bool is_dtype(int number) {
  return number >= MUSTER_I8 && number <= MUSTER_F8E5M2;
}

int refuse(std::string text) {
  return keep({.code = Errc::invalid_argument, .text = std::move(text)});
}

int give(Result<GradientStats> stats, muster_gradients_stats* to) {
  if (!stats) {
    return keep(std::move(stats.error()));
  }
  if (to != nullptr) {
    hand_out({.size = sizeof(muster_gradients_stats),
              .buckets = stats->buckets,
              .bytes = stats->bytes,
              .exposed_ns = stats->exposed.count(),
              .moved = stats->moved ? 1 : 0},
             to);
  }
  return 0;
}

// Converts a hook's error code to an Error. Returns the stored error if it has this code.
Error error_of_hook(int code) {
  const Error& kept = kept_error();
  if (-static_cast<int>(kept.code) == code) {
    return kept;
  }
  const bool known = code < 0 && code >= MUSTER_E_NCCL;
  return {.code = known ? static_cast<Errc>(-code) : Errc::aborted,
          .text = "GradientSync: the hook returned " + std::to_string(code)};
}

}  // namespace
}  // namespace muster::collective

struct muster_gradients {
  muster_gradients(muster_comm* of, const muster_gradients_options& o)
      : comm(of),
        hook(o.hook),
        bucket_hook(o.bucket_hook),
        context(o.context),
        sync(of->comm, with_hook(muster::collective::options_of(o))) {}

  muster::collective::GradientSyncOptions with_hook(
      muster::collective::GradientSyncOptions options) {
    if (hook != nullptr || bucket_hook != nullptr) {
      options.hook = [this](muster::collective::Communicator&,
                            const muster::collective::GradientBucketView& bucket) {
        return call_hook(bucket);
      };
    }
    return options;
  }

  muster::collective::Result<muster::collective::Work> call_hook(
      const muster::collective::GradientBucketView& view) const {
    const muster::collective::Buffer& b = view.buffer;
    const muster_buffer bucket{b.data, b.count, static_cast<int32_t>(b.dtype), b.device};
    muster_work* made = nullptr;
    const int code = bucket_hook != nullptr ? call_bucket_hook(view, bucket, &made)
                                            : hook(context, comm, &bucket, &made);
    const std::unique_ptr<muster_work> work(made);
    if (code != 0) {
      return std::unexpected(muster::collective::error_of_hook(code));
    }
    return work ? work->work : muster::collective::Work();
  }

  int call_bucket_hook(const muster::collective::GradientBucketView& view,
                       const muster_buffer& buffer,
                       muster_work** work) const {
    std::vector<int32_t> ids;
    std::vector<uint64_t> firsts;
    std::vector<uint64_t> counts;
    for (const auto& gradient : view.gradients) {
      ids.push_back(gradient.id);
      firsts.push_back(gradient.first);
      counts.push_back(gradient.count);
    }
    const muster_gradients_bucket bucket{.size = sizeof(muster_gradients_bucket),
                                         .buffer = buffer,
                                         .index = view.index,
                                         .is_last = view.is_last ? 1 : 0,
                                         .stream = view.stream,
                                         .gradients = ids.size(),
                                         .ids = ids.data(),
                                         .firsts = firsts.data(),
                                         .counts = counts.data()};
    return bucket_hook(context, comm, &bucket, work);
  }

  muster_comm* comm;
  muster_gradients_hook hook;
  muster_gradients_bucket_hook bucket_hook;
  void* context;
  muster::collective::GradientSync sync;
};

using namespace muster::collective;  // NOLINT(google-build-using-namespace): C has none

extern "C" {

int muster_gradients_create(muster_comm* comm,
                            const muster_gradients_options* options,
                            muster_gradients** gradients) {
  const muster_gradients_options o = taken(options);
  if (!is_dtype(o.wire)) {
    return refuse("muster_gradients_create: unknown wire type");
  }
  *gradients = new muster_gradients(comm, o);
  return 0;
}

void muster_gradients_free(muster_gradients* gradients) {
  delete gradients;
}

int muster_gradients_add(
    muster_gradients* gradients, const char* name, int dtype, size_t count, int* id) {
  if (!is_dtype(dtype)) {
    return refuse("muster_gradients_add: '" + text_of(name) + "' has an unknown dtype");
  }
  auto added = gradients->sync.add(text_of(name), static_cast<DType>(dtype), count);
  if (!added) {
    return keep(std::move(added.error()));
  }
  *id = *added;
  return 0;
}

int muster_gradients_finalize(muster_gradients* gradients) {
  return finish(gradients->sync.finalize());
}

int muster_gradients_grad(muster_gradients* gradients, int id, void** memory) {
  auto where = gradients->sync.grad(id);
  if (!where) {
    return keep(std::move(where.error()));
  }
  *memory = *where;
  return 0;
}

int muster_gradients_bind(muster_gradients* gradients, int id, void* memory) {
  return finish(gradients->sync.bind(id, memory));
}

int muster_gradients_begin(muster_gradients* gradients, int synchronize) {
  return finish(gradients->sync.begin(synchronize != 0));
}

int muster_gradients_mark_ready(muster_gradients* gradients, int id, void* stream) {
  return finish(gradients->sync.mark_ready(id, stream));
}

int muster_gradients_mark_unused(muster_gradients* gradients, int id) {
  return finish(gradients->sync.mark_unused(id));
}

int muster_gradients_mark_unused_on(muster_gradients* gradients, int id, void* stream) {
  return finish(gradients->sync.mark_unused(id, stream));
}

int muster_gradients_wait_for(muster_gradients* gradients,
                              int64_t timeout_ns,
                              muster_gradients_stats* stats) {
  return give(gradients->sync.wait(muster::Duration(timeout_ns)), stats);
}

int muster_gradients_zero_on(muster_gradients* gradients, void* stream) {
  return finish(gradients->sync.zero(stream));
}

int muster_gradients_wait(muster_gradients* gradients, muster_gradients_stats* stats) {
  return give(gradients->sync.wait(), stats);
}

int muster_gradients_wait_stream(muster_gradients* gradients,
                                 void* stream,
                                 muster_gradients_stats* stats) {
  return give(gradients->sync.wait_stream(stream), stats);
}

int muster_gradients_used(const muster_gradients* gradients, int id) {
  return gradients->sync.used(id) ? 1 : 0;
}

void muster_gradients_zero(muster_gradients* gradients) {
  static_cast<void>(gradients->sync.zero());  // host only; for GPUs: muster_gradients_zero_on
}

int muster_gradients_rebind(muster_gradients* gradients, muster_comm* comm) {
  gradients->comm = comm;
  return finish(gradients->sync.rebind(comm->comm));
}

}  // extern "C"
