// SPDX-License-Identifier: Apache-2.0
// Python's lock and objects, for code that runs in any thread, also while the process ends.
#pragma once

#include <optional>
#include <torch/csrc/utils/pybind.h>
#include <utility>

#include <unistd.h>

namespace muster::torch_backend {

namespace py = pybind11;

// From then on a thread that asks for Python's lock never comes back.
inline bool python_ends() {
#if PY_VERSION_HEX >= 0x030d0000
  return Py_IsInitialized() == 0 || Py_IsFinalizing() != 0;
#else
  return Py_IsInitialized() == 0 || _Py_IsFinalizing() != 0;
#endif
}

// Lets other Python threads run, if this thread has Python's lock.
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

// An object of Python that C++ keeps, and may drop in any thread at any time.
class Kept {
 public:
  explicit Kept(py::object object) : object_(std::move(object)), pid_(::getpid()) {}

  Kept(const Kept&) = delete;
  Kept& operator=(const Kept&) = delete;

  ~Kept() {
    if (python_ends() || pid_ != ::getpid()) {
      object_.release();  // it ends with the process, or is another one's
      return;
    }
    const py::gil_scoped_acquire gil;
    object_ = py::object();
  }

  // With Python's lock.
  [[nodiscard]] const py::object& get() const { return object_; }

 private:
  py::object object_;
  pid_t pid_;
};

}  // namespace muster::torch_backend
