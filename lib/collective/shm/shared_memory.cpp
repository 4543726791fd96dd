// SPDX-License-Identifier: Apache-2.0
#include "collective/shm/shared_memory.hpp"

#include <fmt/format.h>

#include <cerrno>
#include <map>
#include <mutex>
#include <utility>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

namespace muster::collective {
namespace {

using FileId = std::pair<dev_t, ino_t>;

}  // namespace

struct SharedMemory::Mapping {
  UniqueFd fd;
  std::size_t size = 0;
  std::mutex mutex;
  char* address = nullptr;

  Mapping() = default;
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;

  ~Mapping() {
    if (address != nullptr) {
      ::munmap(address, size);
    }
  }

  struct Known {
    std::mutex mutex;
    std::map<FileId, std::weak_ptr<Mapping>> files;
  };

  // Never destroyed: it is used until the process has exited.
  static Known& known() {
    static auto* const kKnown = new Known();
    return *kKnown;
  }

  // Returns this process's existing mapping of the file, or a new one.
  static Result<std::shared_ptr<Mapping>> of(UniqueFd fd) {
    struct stat facts {};

    if (::fstat(fd.get(), &facts) != 0) {
      return std::unexpected(system_failure("cannot inspect shared memory", errno));
    }
    Known& all = known();
    const std::scoped_lock lock(all.mutex);
    // The table holds weak pointers, so that it does not keep memory alive.
    std::erase_if(all.files, [](const auto& entry) { return entry.second.expired(); });
    // Device and inode identify a memfd, no matter which descriptor refers to it.
    auto& place = all.files[{facts.st_dev, facts.st_ino}];
    auto mapping = place.lock();
    if (!mapping) {
      mapping = std::make_shared<Mapping>();
      mapping->fd = std::move(fd);
      mapping->size = static_cast<std::size_t>(facts.st_size);
      place = mapping;
    }
    return mapping;
  }
};

Result<void> allowed_by_file_limit(std::size_t bytes) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY &&
      bytes > limit.rlim_cur) {
    return std::unexpected(system_failure(
        fmt::format(
            "cannot create {} bytes of shared memory: the file size limit (ulimit -f), which also "
            "applies to shared memory, is {} bytes",
            bytes,
            limit.rlim_cur),
        EFBIG));
  }
  return {};
}

Result<SharedMemory> SharedMemory::create(const std::string& name, std::size_t bytes) {
  MUSTER_RETURN_IF_ERROR(allowed_by_file_limit(bytes));
  UniqueFd fd(::memfd_create(name.c_str(), MFD_CLOEXEC));
  if (!fd) {
    return std::unexpected(system_failure("cannot create shared memory", errno));
  }
  // ftruncate does not allocate memory; reserve() does.
  if (::ftruncate(fd.get(), static_cast<off_t>(bytes)) != 0) {
    return std::unexpected(system_failure(
        "cannot create " + std::to_string(bytes) + " bytes of shared memory", errno));
  }
  return attach(std::move(fd));
}

Result<SharedMemory> SharedMemory::attach(UniqueFd fd) {
  auto mapping = Mapping::of(std::move(fd));
  MUSTER_RETURN_IF_ERROR(mapping);
  return SharedMemory(std::move(*mapping));
}

int SharedMemory::fd() const {
  return mapping_->fd.get();
}

std::size_t SharedMemory::size() const {
  return mapping_->size;
}

Result<char*> SharedMemory::map() {
  const std::scoped_lock lock(mapping_->mutex);
  if (mapping_->address != nullptr) {
    return mapping_->address;
  }
  void* const address = ::mmap(nullptr,
                               mapping_->size,
                               PROT_READ | PROT_WRITE,
                               MAP_SHARED | MAP_NORESERVE,
                               mapping_->fd.get(),
                               0);
  if (address == MAP_FAILED) {
    return std::unexpected(system_failure(
        "cannot map " + std::to_string(mapping_->size) + " bytes of shared memory (see ulimit -v)",
        errno));
  }
  // Exclude the other ranks' buffers, which may be gigabytes, from core dumps.
  ::madvise(address, mapping_->size, MADV_DONTDUMP);
  mapping_->address = static_cast<char*>(address);
  return mapping_->address;
}

Result<void> SharedMemory::reserve(std::size_t offset, std::size_t bytes) {
  // Allocate the pages up front: if memory is exhausted, fallocate() fails with ENOSPC, whereas
  // the first write would raise SIGBUS. A signal interrupts fallocate(), which then rolls back.
  int done = 0;
  do {
    done =
        ::fallocate(mapping_->fd.get(), 0, static_cast<off_t>(offset), static_cast<off_t>(bytes));
  } while (done != 0 && errno == EINTR);
  if (done != 0) {
    return std::unexpected(system_failure(
        "cannot reserve " + std::to_string(bytes) + " bytes of shared memory", errno));
  }
  return {};
}

void SharedMemory::drop(std::size_t offset, std::size_t bytes) {
  // Returns the pages to the kernel. They read as zeros after that, which alloc() guarantees.
  static_cast<void>(::fallocate(mapping_->fd.get(),
                                FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                                static_cast<off_t>(offset),
                                static_cast<off_t>(bytes)));
}

}  // namespace muster::collective
