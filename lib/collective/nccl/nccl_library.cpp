// SPDX-License-Identifier: Apache-2.0
#include "collective/nccl/nccl_library.hpp"

#include "base/text.hpp"
#include "collective/nccl/open_place.hpp"

#include <fmt/format.h>

namespace muster::collective::nccl {
namespace {

Result<NcclTable> nccl_table(const SharedObject& object) {
  NcclTable table;
  std::vector<std::string> missing;
#define MUSTER_ENTRY(name, symbol) \
  table.name = reinterpret_cast<decltype(table.name)>(find_symbol(object, #symbol));
  MUSTER_NCCL_REQUIRED(MUSTER_ENTRY)
  MUSTER_NCCL_OPTIONAL(MUSTER_ENTRY)
#undef MUSTER_ENTRY
#define MUSTER_ENTRY(name, symbol) \
  if (table.name == nullptr) {     \
    missing.emplace_back(#symbol); \
  }
  MUSTER_NCCL_REQUIRED(MUSTER_ENTRY)
#undef MUSTER_ENTRY
  if (!missing.empty()) {
    return failure(
        Errc::unsupported,
        fmt::format(
            "{} lacks {}. NCCL 2.18 or newer is required", object.path, join(missing, ", ")));
  }
  return table;
}

Result<NcclLibrary> open_nccl(const Place& place) {
  const auto opened = open_place(place);
  MUSTER_RETURN_IF_ERROR(opened);
  const SharedObject& object = *opened;
  auto table = nccl_table(object);
  MUSTER_RETURN_IF_ERROR(table);
  NcclLibrary library{.call = *table, .path = object.path, .version = 0};
  if (const auto result = table->get_version(&library.version); result != ncclSuccess) {
    return failure(
        Errc::unsupported,
        fmt::format("{}: ncclGetVersion failed: {}", object.path, table->get_error_string(result)));
  }
  return library;
}

}  // namespace

Result<std::shared_ptr<const NcclLibrary>> load_nccl(const std::vector<Place>& places) {
  std::vector<std::string> reasons;
  for (const auto& place : places) {
    auto library = open_nccl(place);
    if (library) {
      return std::make_shared<const NcclLibrary>(*std::move(library));
    }
    reasons.push_back(fmt::format("{}: {}", describe(place), library.error().text));
  }
  return failure(Errc::unsupported,
                 fmt::format("NCCL cannot be used: tried {}. Install NVIDIA's NCCL, or set "
                             "{} to its path",
                             join(reasons, "; "),
                             kNcclVariable));
}

std::string describe_nccl_version(int version) {
  // Up to version 2.8, the version code has only one digit for the minor version (X*1000 + Y*100 +
  // Z).
  const int thousand = version >= 10000 ? 10000 : 1000;
  return fmt::format("{}.{}.{}", version / thousand, version % thousand / 100, version % 100);
}

}  // namespace muster::collective::nccl
