// SPDX-License-Identifier: Apache-2.0
// Work classes for operations that completed within the call and for operations that Python runs.
#pragma once

#include "python/muster/torch/native/python.hpp"

#include <chrono>
#include <memory>
#include <pybind11/chrono.h>
#include <torch/csrc/distributed/c10d/Work.hpp>
#include <torch/csrc/jit/python/pybind_utils.h>
#include <utility>
#include <vector>

namespace muster::torch_backend {

using Future = c10::intrusive_ptr<c10::ivalue::Future>;
using Tensors = std::vector<at::Tensor>;

inline Future new_future() {
  return c10::make_intrusive<c10::ivalue::Future>(c10::ListType::create(c10::TensorType::get()));
}

class Finished final : public c10d::Work {
 public:
  Finished(int rank, c10d::OpType type, Tensors outputs)
      : Work(rank, type), outputs_(std::move(outputs)) {}

  bool isCompleted() override { return true; }

  bool isSuccess() const override { return true; }

  bool wait(std::chrono::milliseconds /*timeout*/) override { return true; }

  void synchronize() override {}

  Tensors result() override { return outputs_; }

  Future getFuture() override {
    Future future = new_future();
    future->markCompleted(c10::IValue(outputs_));
    return future;
  }

 private:
  Tensors outputs_;
};

// Wraps a Work in Python and keeps it alive.
class Delegated final : public c10d::Work {
 public:
  // The caller holds the GIL.
  explicit Delegated(py::object work) : work_(std::move(work)) {}

  bool isCompleted() override {
    const py::gil_scoped_acquire gil;
    return work_.get().attr("is_completed")().cast<bool>();
  }

  bool isSuccess() const override {
    const py::gil_scoped_acquire gil;
    return work_.get().attr("is_success")().cast<bool>();
  }

  bool wait(std::chrono::milliseconds timeout) override {
    const py::gil_scoped_acquire gil;
    if (timeout.count() > 0) {
      work_.get().attr("wait")(timeout);
    } else {
      work_.get().attr("wait")();
    }
    return true;
  }

  void synchronize() override { wait(kNoTimeout); }

  Tensors result() override {
    const py::gil_scoped_acquire gil;
    return work_.get().attr("result")().cast<Tensors>();
  }

  int sourceRank() const override {
    const py::gil_scoped_acquire gil;
    return work_.get().attr("source_rank")().cast<int>();
  }

  Future getFuture() override {
    const py::gil_scoped_acquire gil;
    const py::object future = work_.get().attr("get_future")();
    return future.cast<std::shared_ptr<torch::jit::PythonFutureWrapper>>()->fut;
  }

 private:
  Kept work_;
};

}  // namespace muster::torch_backend
