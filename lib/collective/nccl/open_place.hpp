// SPDX-License-Identifier: Apache-2.0
// Opens a candidate library. Used by NcclLibrary and CudaDriver. Any thread.
#pragma once

#include "collective/nccl/library_places.hpp"
#include "collective/nccl/shared_object.hpp"

namespace muster::collective::nccl {

[[nodiscard]] inline Result<SharedObject> open_place(const Place& place) {
  return place.kind == Place::Kind::loaded ? loaded_shared_object(place.name)
                                           : open_shared_object(place.name);
}

}  // namespace muster::collective::nccl
