// SPDX-License-Identifier: Apache-2.0
#include "process/tree/loaded_symbol.hpp"

#include <array>
#include <cstring>
#include <type_traits>

#include <elf.h>

namespace muster {
namespace {

constexpr int kSegmentsMax = 64;
constexpr int kDynamicMax = 256;
constexpr int kChainMax = 4096;
constexpr std::size_t kNameMax = 64;

template <class T>
std::optional<T> read_as(const ReadMemory& read, std::uint64_t address) {
  static_assert(std::is_trivially_copyable_v<T>);
  T value{};
  if (!read(address, std::as_writable_bytes(std::span(&value, 1)))) {
    return std::nullopt;
  }
  return value;
}

// Addresses of the tables of one loaded file.
struct Tables {
  std::uint64_t bias = 0;  // load bias: added to the addresses in the file
  std::uint64_t symbols = 0;
  std::uint64_t names = 0;
  std::uint64_t hash = 0;
};

struct Segments {
  std::uint64_t bias = 0;
  std::uint64_t dynamic = 0;
};

std::optional<Segments> segments_of(const ReadMemory& read, std::uint64_t base) {
  const auto header = read_as<Elf64_Ehdr>(read, base);
  if (!header || std::memcmp(header->e_ident, ELFMAG, SELFMAG) != 0 ||
      header->e_ident[EI_CLASS] != ELFCLASS64 || header->e_phentsize != sizeof(Elf64_Phdr) ||
      header->e_phnum > kSegmentsMax) {
    return std::nullopt;
  }
  Segments out;
  bool has_first = false;
  for (std::uint64_t i = 0; i < header->e_phnum; ++i) {
    const auto one = read_as<Elf64_Phdr>(read, base + header->e_phoff + i * sizeof(Elf64_Phdr));
    if (!one) {
      return std::nullopt;
    }
    if (one->p_type == PT_LOAD && one->p_offset == 0) {
      out.bias = base - one->p_vaddr;
      has_first = true;
    } else if (one->p_type == PT_DYNAMIC) {
      out.dynamic = one->p_vaddr;
    }
  }
  out.dynamic += out.bias;
  return has_first && out.dynamic != out.bias ? std::optional(out) : std::nullopt;
}

// glibc has already relocated the addresses in the dynamic section; other loaders have not.
std::uint64_t absolute(std::uint64_t address, std::uint64_t bias) {
  return address < bias ? address + bias : address;
}

std::optional<Tables> tables_of(const ReadMemory& read, std::uint64_t base) {
  const auto segments = segments_of(read, base);
  if (!segments) {
    return std::nullopt;
  }
  Tables out;
  out.bias = segments->bias;
  for (std::uint64_t i = 0; i < kDynamicMax; ++i) {
    const auto one = read_as<Elf64_Dyn>(read, segments->dynamic + i * sizeof(Elf64_Dyn));
    if (!one || one->d_tag == DT_NULL) {
      break;
    }
    const std::uint64_t address = absolute(one->d_un.d_ptr, out.bias);
    if (one->d_tag == DT_SYMTAB) {
      out.symbols = address;
    } else if (one->d_tag == DT_STRTAB) {
      out.names = address;
    } else if (one->d_tag == DT_GNU_HASH) {
      out.hash = address;
    }
  }
  const bool complete = out.symbols != 0 && out.names != 0 && out.hash != 0;
  return complete ? std::optional(out) : std::nullopt;
}

std::uint32_t gnu_hash(std::string_view name) {
  std::uint32_t hash = 5381;
  for (const char c : name) {
    hash = hash * 33 + static_cast<unsigned char>(c);
  }
  return hash;
}

bool is_named(const ReadMemory& read, std::uint64_t address, std::string_view name) {
  std::array<char, kNameMax> text{};
  const auto bytes = std::span(text).first(name.size() + 1);
  return read(address, std::as_writable_bytes(bytes)) && bytes.back() == '\0' &&
         std::string_view(text.data(), name.size()) == name;
}

// Also none if this file only references the symbol and another file defines it.
std::optional<std::uint64_t> defined_at(const ReadMemory& read,
                                        const Tables& tables,
                                        std::uint64_t index,
                                        std::string_view name) {
  const auto symbol = read_as<Elf64_Sym>(read, tables.symbols + index * sizeof(Elf64_Sym));
  if (!symbol || symbol->st_shndx == SHN_UNDEF ||
      !is_named(read, tables.names + symbol->st_name, name)) {
    return std::nullopt;
  }
  return tables.bias + symbol->st_value;
}

struct HashHeader {
  std::uint32_t buckets = 0;
  std::uint32_t first_symbol = 0;
  std::uint32_t bloom_words = 0;
  std::uint32_t bloom_shift = 0;
};

std::optional<std::uint64_t> look_up(const ReadMemory& read,
                                     const Tables& tables,
                                     std::string_view name) {
  const auto header = read_as<HashHeader>(read, tables.hash);
  if (!header || header->buckets == 0) {
    return std::nullopt;
  }
  const std::uint32_t hash = gnu_hash(name);
  const std::uint64_t buckets =
      tables.hash + sizeof(HashHeader) + std::uint64_t{header->bloom_words} * 8;
  const std::uint64_t chains = buckets + std::uint64_t{header->buckets} * 4;
  const auto first = read_as<std::uint32_t>(read, buckets + (hash % header->buckets) * 4ULL);
  if (!first || *first < header->first_symbol) {
    return std::nullopt;
  }
  for (std::uint64_t index = *first; index < std::uint64_t{*first} + kChainMax; ++index) {
    const auto entry = read_as<std::uint32_t>(read, chains + (index - header->first_symbol) * 4);
    if (!entry) {
      return std::nullopt;
    }
    if ((*entry | 1U) == (hash | 1U)) {
      if (const auto address = defined_at(read, tables, index, name)) {
        return address;
      }
    }
    if ((*entry & 1U) != 0) {  // end of the bucket's chain
      return std::nullopt;
    }
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::uint64_t> address_of_symbol(const ReadMemory& read,
                                               std::uint64_t base,
                                               std::string_view name) {
  const auto tables = name.size() < kNameMax ? tables_of(read, base) : std::nullopt;
  return tables ? look_up(read, *tables, name) : std::nullopt;
}

}  // namespace muster
