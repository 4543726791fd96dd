/* SPDX-License-Identifier: Apache-2.0
 *
 * elastic_worker.c: the training loop of elastic_worker.cpp in C. Environment: STEPS; FOLDER; PLAN,
 * "RANK:STEP" or "": the rank kills itself in this step, once. */
#include "muster/collective.h"
#include "muster/elastic.h"
#include "muster/worker.h"

#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { WEIGHTS = 64, TEXT = 512 };

struct position {
  uint64_t step;
  float sum;
};

struct model {
  struct position position;
  float weights[WEIGHTS];
  float gradient[WEIGHTS];
  muster_state* state;
  int resets;
};

static void die_once(uint64_t step) {
  char word[TEXT];
  char path[2 * TEXT];
  snprintf(word, sizeof(word), "%s:%" PRIu64, getenv("RANK"), step);
  snprintf(path, sizeof(path), "%s/%s", getenv("FOLDER"), word);
  if (strcmp(getenv("PLAN"), word) == 0 && open(path, O_CREAT | O_EXCL, 0600) >= 0) {
    snprintf(path, sizeof(path), "%s/ready", getenv("FOLDER"));
    close(open(path, O_RDONLY)); /* waits for the test, as in elastic_worker.cpp */
    raise(SIGKILL);
  }
}

static void make_gradient(struct model* model, int rank) {
  uint32_t random = (uint32_t)rank * 7919U + (uint32_t)model->position.step * 104729U;
  for (int i = 0; i < WEIGHTS; ++i) {
    random = random * 1664525U + 1013904223U;
    model->gradient[i] = (float)(random >> 8U) * 1e-7F;
  }
}

static int sum_gradient(struct model* model, muster_comm* comm) {
  const muster_buffer buffer = {model->gradient, WEIGHTS, MUSTER_F32, MUSTER_HOST};
  muster_call call;
  memset(&call, 0, sizeof(call));
  call.size = sizeof(call);
  call.kind = MUSTER_ALL_REDUCE;
  call.op = MUSTER_SUM;
  call.in = call.out = buffer;
  return muster_run(comm, &call, NULL);
}

static int train(muster_comm* comm, void* user) {
  struct model* const model = user;
  const uint64_t steps = strtoull(getenv("STEPS"), NULL, 10);
  while (model->position.step < steps) {
    make_gradient(model, muster_comm_rank(comm));
    die_once(model->position.step);
    int code = sum_gradient(model, comm);
    if (code != 0) {
      return code;
    }
    for (int i = 0; i < WEIGHTS; ++i) {
      model->weights[i] -= 0.01F * model->gradient[i];
    }
    model->position.sum += model->weights[0];
    model->position.step += 1;
    code = muster_state_commit(model->state);
    if (code != 0) {
      return code;
    }
  }
  return 0;
}

static void note_reset(void* user) {
  struct model* const model = user;
  model->resets += 1;
}

static uint64_t hash(const struct model* model) {
  uint64_t sum = 1469598103934665603U;
  const unsigned char* const bytes = (const unsigned char*)model->weights;
  for (size_t i = 0; i < sizeof(model->weights); ++i) {
    sum = (sum ^ bytes[i]) * 1099511628211U;
  }
  return sum;
}

static int failed(const char* what) {
  char text[TEXT];
  muster_last_error_text(text, sizeof(text));
  fprintf(stderr, "%s: %s\n", what, text);
  return 1;
}

int main(void) {
  struct model model;
  memset(&model, 0, sizeof(model));
  if (muster_state_create(&model.state) != 0 ||
      muster_state_add(model.state, &model.position, sizeof(model.position)) != 0 ||
      muster_state_add(model.state, model.weights, sizeof(model.weights)) != 0) {
    return failed("state");
  }
  muster_state_on_reset(model.state, note_reset, &model);
  if (muster_elastic_run(model.state, train, &model, NULL) != 0) {
    return failed("muster_elastic_run");
  }
  printf("%016" PRIx64 " commits %" PRIu64 " epoch %" PRIu64 " resets %d\n",
         hash(&model),
         muster_state_commits(model.state),
         muster_worker_epoch(),
         model.resets);
  muster_state_destroy(model.state);
  return 0;
}
