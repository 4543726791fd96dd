// SPDX-License-Identifier: Apache-2.0
// Moves DDP's buckets into library memory, where they are summed without a copy.
#pragma once

#include "python/muster/torch/native/communicator.hpp"

#include <c10/core/CPUAllocator.h>
#include <cstring>

namespace muster::torch_backend {

constexpr std::size_t kLeastBucket = 64UL * 1024;  // bytes; below this, copying is as fast

// Whether a Python object wraps the tensor. The accessor's name differs between versions of
// PyTorch; if a version has neither, assume yes.
template <class Slot>
auto is_pythons(const Slot& slot, int /*preferred*/) -> decltype(slot.load_pyobj() != nullptr) {
  return slot.load_pyobj() != nullptr;
}

template <class Slot>
auto is_pythons(const Slot& slot, long /*otherwise*/)
    -> decltype(slot._unchecked_untagged_pyobj() != nullptr) {
  return slot._unchecked_untagged_pyobj() != nullptr;
}

inline bool is_pythons(...) {
  return true;
}

// An allocation in library memory, held until the storage is freed.
struct Place {
  std::shared_ptr<Communicator> communicator;
  void* memory;

  static void free(void* self) {
    auto* const place = static_cast<Place*>(self);
    place->communicator->free(place->memory);
    delete place;  // NOLINT(cppcoreguidelines-owning-memory): PyTorch keeps a raw pointer
  }
};

// A DDP bucket spans a whole storage that PyTorch allocated in C++. A tensor that Python
// references might also share its memory with NumPy by address.
inline bool is_bucket(const at::Tensor& tensor) {
  const auto* const storage = tensor.storage().unsafeGetStorageImpl();
  const std::size_t bytes = static_cast<std::size_t>(tensor.numel()) * tensor.element_size();
  return tensor.dim() == 1 && bytes >= kLeastBucket && bytes == storage->nbytes() &&
         storage->resizable() && storage->allocator() == c10::GetCPUAllocator() &&
         storage->data_ptr().get_deleter() != &Place::free &&
         !is_pythons(*tensor.unsafeGetTensorImpl()->pyobj_slot(), 0);
}

// Moves the storage, including all views of it.
inline void move_in(const at::Tensor& tensor, const std::shared_ptr<Communicator>& communicator) {
  auto* const storage = tensor.storage().unsafeGetStorageImpl();
  void* const memory = communicator->alloc(storage->nbytes());
  if (memory == nullptr) {
    return;
  }
  std::memcpy(memory, storage->data(), storage->nbytes());
  auto* const place = new Place{communicator, memory};
  storage->set_data_ptr_noswap(
      at::DataPtr(memory, place, &Place::free, c10::Device(c10::DeviceType::CPU)));
}

}  // namespace muster::torch_backend
