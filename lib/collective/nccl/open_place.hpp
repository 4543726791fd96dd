// SPDX-License-Identifier: Apache-2.0
// From a place to an open library. Used by the two tables of this folder. Any thread.
#pragma once

#include "collective/nccl/library_places.hpp"
#include "collective/nccl/shared_object.hpp"

namespace muster::collective::nccl {

[[nodiscard]] inline Result<SharedObject> open_place(const Place& place) {
  return place.kind == Place::Kind::loaded ? loaded_shared_object(place.name)
                                           : open_shared_object(place.name);
}

}  // namespace muster::collective::nccl
