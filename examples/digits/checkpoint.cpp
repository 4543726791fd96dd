// SPDX-License-Identifier: Apache-2.0
#include "checkpoint.hpp"

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>

#include <fcntl.h>
#include <unistd.h>

namespace digits {
namespace {

using muster::Errc;
using muster::failure;

using File = std::unique_ptr<std::FILE, int (*)(std::FILE*)>;

struct Head {
  std::array<char, 8> magic{'D', 'I', 'G', 'I', 'T', 'S', '1', '\n'};
  std::uint32_t epoch = 0;
  std::uint32_t count = 0;
  std::uint64_t hash = 0;  // of the values
};

Result<void> failed(const std::string& what) {
  const int why = errno;
  return failure(Errc::system, what + ": " + std::strerror(why));  // NOLINT(concurrency-mt-unsafe)
}

// A rename is durable only after the folder has been flushed.
Result<void> flush_folder(const std::string& path) {
  const auto folder = std::filesystem::absolute(path).parent_path();
  const int fd = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  const bool good = fd >= 0 && ::fsync(fd) == 0;
  auto result = good ? Result<void>() : failed("cannot flush the folder of " + path);
  if (fd >= 0) {
    ::close(fd);
  }
  return result;
}

Result<void> write_aside(const std::string& path, const Checkpoint& checkpoint) {
  Head head;
  head.epoch = checkpoint.epoch;
  head.count = static_cast<std::uint32_t>(checkpoint.values.size());
  head.hash = hash_of(checkpoint.values);
  File file(std::fopen(path.c_str(), "wbe"), std::fclose);
  const bool good =
      file && std::fwrite(&head, sizeof head, 1, file.get()) == 1 &&
      std::fwrite(checkpoint.values.data(), sizeof(float), head.count, file.get()) == head.count &&
      std::fflush(file.get()) == 0 && ::fsync(::fileno(file.get())) == 0 &&
      std::fclose(file.release()) == 0;
  return good ? Result<void>() : failed("cannot write " + path);
}

}  // namespace

Result<void> save(const std::string& path, const Checkpoint& checkpoint) {
  const std::string aside = path + ".new";
  if (auto written = write_aside(aside, checkpoint); !written) {
    return written;
  }
  if (std::rename(aside.c_str(), path.c_str()) != 0) {
    return failed("cannot rename " + aside);
  }
  return flush_folder(path);
}

Result<std::optional<Checkpoint>> load(const std::string& path, std::size_t count) {
  const File file(std::fopen(path.c_str(), "rbe"), std::fclose);
  if (!file) {
    if (errno == ENOENT) {
      return std::nullopt;
    }
    return failed("cannot open " + path).error();
  }
  const Head wanted;
  Head head;
  Checkpoint out;
  out.values.resize(count);
  const bool good = std::fread(&head, sizeof head, 1, file.get()) == 1 &&
                    head.magic == wanted.magic && head.count == count &&
                    std::fread(out.values.data(), sizeof(float), count, file.get()) == count &&
                    std::fgetc(file.get()) == EOF && head.hash == hash_of(out.values);
  if (!good) {
    return failure(Errc::invalid_argument,
                   path + " is not a checkpoint of this network, or is damaged: remove it");
  }
  out.epoch = head.epoch;
  return out;
}

std::uint64_t hash_of(std::span<const float> values) {
  std::uint64_t hash = 14695981039346656037U;
  for (const std::byte byte : std::as_bytes(values)) {
    hash = (hash ^ static_cast<std::uint64_t>(byte)) * 1099511628211U;
  }
  return hash;
}

}  // namespace digits
