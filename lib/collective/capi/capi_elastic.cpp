// SPDX-License-Identifier: Apache-2.0
#include "collective/capi/capi_impl.hpp"
#include "collective/elastic/run.hpp"
#include "collective/elastic/state.hpp"
#include "muster/elastic.h"

#include <cerrno>
#include <memory>
#include <new>
#include <utility>

struct muster_state {
  muster::collective::elastic::State state;
};

namespace muster::collective {
namespace {

// The caller's function and the handle that it gets.
class CTraining final : public elastic::Training {
 public:
  CTraining(muster_train_function function, void* user) : function_(function), user_(user) {}

  Communicator& connect(Communicator communicator) override {
    handle_.reset(new muster_comm{std::move(communicator)});
    return handle_->comm;
  }

  void disconnect() override { handle_.reset(); }

  int train() override { return function_(handle_.get(), user_); }

 private:
  muster_train_function function_;
  void* user_;
  std::unique_ptr<muster_comm> handle_;
};

}  // namespace
}  // namespace muster::collective

using namespace muster::collective;  // NOLINT(google-build-using-namespace): C has none

extern "C" {

int muster_state_create(muster_state** state) {
  *state = new (std::nothrow) muster_state;
  return *state != nullptr ? 0 : keep(system_failure("muster_state_create", ENOMEM));
}

void muster_state_destroy(muster_state* state) {
  delete state;
}

int muster_state_add(muster_state* state, void* data, size_t bytes) {
  return finish(state->state.add(data, bytes));
}

void muster_state_on_reset(muster_state* state, void (*function)(void* user), void* user) {
  state->state.on_reset([function, user] { function(user); });
}

int muster_state_commit(muster_state* state) {
  return finish(state->state.commit());
}

void muster_state_restore(muster_state* state) {
  state->state.restore();
}

uint64_t muster_state_commits(const muster_state* state) {
  return state->state.commits();
}

int muster_elastic_run(muster_state* state,
                       muster_train_function train,
                       void* user,
                       const muster_comm_options* options) {
  CTraining training(train, user);
  auto result = elastic::run(state->state, training, comm_options_of(options));
  return result ? *result : keep(std::move(result.error()));
}

}  // extern "C"
