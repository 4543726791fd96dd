// SPDX-License-Identifier: Apache-2.0
// The compiled backend as a Python module. It includes its only source file, because PyTorch's
// headers take most of the compile time.
#include "python/muster/torch/native/backend.cpp"  // NOLINT(bugprone-suspicious-include)

namespace muster::torch_backend {
namespace {

// The caller holds the GIL.
std::vector<std::weak_ptr<Communicator>>& communicators() {
  static std::vector<std::weak_ptr<Communicator>> all;
  return all;
}

c10::intrusive_ptr<Backend> make_backend(const py::object& group,
                                         std::uintptr_t handle,
                                         py::object owner,
                                         double seconds,
                                         double max_wait) {
  auto communicator = std::make_shared<Communicator>(handle, std::move(owner));
  communicators().push_back(communicator);
  return c10::make_intrusive<Backend>(
      group.attr("rank")().cast<int>(),
      group.attr("size")().cast<int>(),
      std::move(communicator),
      group,
      Backend::Settings{std::chrono::milliseconds(std::int64_t(seconds * 1e3)),
                        std::int64_t(max_wait * 1e9)});
}

// The lock that the Python group uses in `with` statements instead of a threading.Lock.
class Lock {
 public:
  explicit Lock(std::shared_ptr<Communicator> communicator)
      : communicator_(std::move(communicator)) {}

  void enter() {
    const py::gil_scoped_release unlocked;
    communicator_->lock().lock();
  }

  void leave(const py::args& /*exception*/) { communicator_->lock().unlock(); }

 private:
  std::shared_ptr<Communicator> communicator_;
};

// Translates Failure to muster.Error.
void translate(std::exception_ptr thrown) {
  try {
    std::rethrow_exception(std::move(thrown));
  } catch (const Failure& failure) {
    const py::object made = py::module_::import("muster.errors")
                                .attr("make")(failure.about.code,
                                              failure.what(),
                                              failure.about.rank,
                                              py::arg("epoch") = failure.about.epoch,
                                              py::arg("seq") = failure.about.seq,
                                              py::arg("native") = failure.about.native);
    PyErr_SetObject(py::type::of(made).ptr(), made.ptr());
  }
}

}  // namespace

void end_all() {
  for (const auto& each : std::exchange(communicators(), {})) {
    if (const auto communicator = each.lock()) {
      const py::gil_scoped_release unlocked;
      communicator->end(0);
    }
  }
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, module) {
  py::module_::import("torch.distributed");  // for its types
  py::register_exception_translator(&translate);
  py::class_<Awaited>(module, "Awaited")
      .def("over_within", &Awaited::over_within)
      .def("give_up", &Awaited::give_up);
  py::class_<Trigger>(module, "Trigger").def("set_result", &Trigger::set_result);
  py::class_<Lock>(module, "Lock").def("__enter__", &Lock::enter).def("__exit__", &Lock::leave);
  py::class_<Backend, c10d::Backend, c10::intrusive_ptr<Backend>>(module, "Backend")
      .def("_set_default_timeout", &Backend::setTimeout)
      .def("lock", [](Backend& self) { return Lock(self.communicator()); });
  module.def("load", &load);
  module.def("make_backend", &make_backend);
  module.def("end_all", &end_all);
}

}  // namespace muster::torch_backend
