// SPDX-License-Identifier: Apache-2.0
// Wrappers for the GIL and Python objects, usable in any thread and during process exit.
#pragma once

#include <optional>
#include <torch/csrc/utils/pybind.h>
#include <utility>

#include <unistd.h>

namespace muster::torch_backend {

namespace py = pybind11;

// Once this is true, a thread that requests the GIL never returns.
inline bool python_ends() {
#if PY_VERSION_HEX >= 0x030d0000
  return Py_IsInitialized() == 0 || Py_IsFinalizing() != 0;
#else
  return Py_IsInitialized() == 0 || _Py_IsFinalizing() != 0;
#endif
}

// Releases the GIL, if this thread holds it, so that other Python threads can run.
class Unlocked {
 public:
  Unlocked() {
    if (PyGILState_Check() != 0) {
      released_.emplace();
    }
  }

 private:
  std::optional<py::gil_scoped_release> released_;
};

// A Python object held by C++ code, which may drop it in any thread at any time.
class Kept {
 public:
  explicit Kept(py::object object) : object_(std::move(object)), pid_(::getpid()) {}

  Kept(const Kept&) = delete;
  Kept& operator=(const Kept&) = delete;

  ~Kept() {
    if (python_ends() || pid_ != ::getpid()) {
      object_.release();  // it is freed at process exit, or the parent process owns it
      return;
    }
    const py::gil_scoped_acquire gil;
    object_ = py::object();
  }

  // The caller holds the GIL.
  [[nodiscard]] const py::object& get() const { return object_; }

 private:
  py::object object_;
  pid_t pid_;
};

}  // namespace muster::torch_backend
