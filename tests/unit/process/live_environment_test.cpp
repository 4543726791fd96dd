// SPDX-License-Identifier: Apache-2.0
#include "process/tree/live_environment.hpp"

#include "support/catch.hpp"

#include <cstdlib>
#include <cstring>
#include <random>
#include <string>

#include <elf.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace muster;

namespace {

constexpr std::uint64_t kBase = 0x400000;

// Memory that contains only these bytes, starting at kBase.
ReadMemory memory(const std::vector<std::byte>& bytes) {
  return [&bytes](std::uint64_t address, std::span<std::byte> to) {
    const bool inside = address >= kBase && address - kBase <= bytes.size() &&
                        to.size() <= bytes.size() - (address - kBase);
    if (inside) {
      std::memcpy(to.data(), bytes.data() + (address - kBase), to.size());
    }
    return inside;
  };
}

template <class T>
void put(std::vector<std::byte>& bytes, std::size_t at, const T& value) {
  bytes.resize(std::max(bytes.size(), at + sizeof(T)));
  std::memcpy(bytes.data() + at, &value, sizeof(T));
}

void put_text(std::vector<std::byte>& bytes, std::size_t at, const std::string& text) {
  bytes.resize(std::max(bytes.size(), at + text.size() + 1));
  std::memcpy(bytes.data() + at, text.c_str(), text.size() + 1);
}

std::uint32_t hash_of(const std::string& name) {
  std::uint32_t hash = 5381;
  for (const char c : name) {
    hash = hash * 33 + static_cast<unsigned char>(c);
  }
  return hash;
}

// A mapped file that defines one symbol at kBase + 0x900.
std::vector<std::byte> object_with(const std::string& symbol) {
  std::vector<std::byte> bytes;
  Elf64_Ehdr header{};
  std::memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_ident[EI_CLASS] = ELFCLASS64;
  header.e_phoff = sizeof(header);
  header.e_phentsize = sizeof(Elf64_Phdr);
  header.e_phnum = 2;
  put(bytes, 0, header);
  Elf64_Phdr load{};
  load.p_type = PT_LOAD;
  put(bytes, sizeof(header), load);
  Elf64_Phdr dynamic{};
  dynamic.p_type = PT_DYNAMIC;
  dynamic.p_offset = 0x200;
  dynamic.p_vaddr = 0x200;
  put(bytes, sizeof(header) + sizeof(load), dynamic);
  put(bytes, 0x200, Elf64_Dyn{DT_SYMTAB, {0x400}});
  put(bytes, 0x210, Elf64_Dyn{DT_STRTAB, {kBase + 0x600}});  // relocated, as by glibc
  put(bytes, 0x220, Elf64_Dyn{DT_GNU_HASH, {0x700}});
  put(bytes, 0x230, Elf64_Dyn{DT_NULL, {0}});
  Elf64_Sym one{};
  one.st_name = 1;
  one.st_shndx = 5;
  one.st_value = 0x900;
  put(bytes, 0x400 + sizeof(one), one);
  put_text(bytes, 0x601, symbol);
  for (const std::uint32_t word : {1U, 1U, 1U, 6U}) {  // buckets, first symbol, bloom words, shift
    put(bytes, 0x700 + 4 * (bytes.size() > 0x700 ? (bytes.size() - 0x700) / 4 : 0), word);
  }
  put(bytes, 0x710, std::uint64_t{0});
  put(bytes, 0x718, std::uint32_t{1});                     // the bucket begins with symbol 1
  put(bytes, 0x71c, std::uint32_t{hash_of(symbol) | 1U});  // which is also its last one
  put(bytes, 0xfff, char{0});
  return bytes;
}

}  // namespace

TEST_CASE("loaded symbol: finds a symbol that the file defines, and no others") {
  const auto bytes = object_with("environ");
  CHECK(address_of_symbol(memory(bytes), kBase, "environ") == kBase + 0x900);
  CHECK_FALSE(address_of_symbol(memory(bytes), kBase, "__environ"));
  CHECK_FALSE(address_of_symbol(memory(bytes), kBase + 8, "environ"));
  CHECK_FALSE(address_of_symbol(memory(bytes), kBase, std::string(100, 'x')));
}

TEST_CASE("loaded symbol: a symbol that the file only uses is not defined there") {
  auto bytes = object_with("environ");
  Elf64_Sym used{};
  used.st_name = 1;
  used.st_shndx = SHN_UNDEF;
  put(bytes, 0x400 + sizeof(used), used);
  CHECK_FALSE(address_of_symbol(memory(bytes), kBase, "environ"));
}

TEST_CASE("loaded symbol: damaged tables end the search") {
  std::mt19937 random(7);  // NOLINT(bugprone-random-generator-seed): the same in each run
  for (int run = 0; run < 20000; ++run) {
    auto bytes = object_with("environ");
    for (int i = 0; i < 4; ++i) {
      bytes[random() % 0x800] = static_cast<std::byte>(random());
    }
    bytes.resize(random() % 2 == 0 ? bytes.size() : random() % 0x900);
    const auto found = address_of_symbol(memory(bytes), kBase, "environ");
    CHECK((!found || *found != 0));
  }
}

TEST_CASE("live environment: finds the files that define the variable") {
  const std::string maps =
      "55d0000-55d1000 r--p 00000000 08:01 11   /usr/bin/python3.11\n"
      "55d1000-55d2000 r-xp 00001000 08:01 11   /usr/bin/python3.11\n"
      "7f10000-7f11000 rw-p 00000000 00:00 0 \n"
      "7f20000-7f21000 r--p 00000000 08:01 17   /usr/lib/x86_64-linux-gnu/libc.so.6\n"
      "7f30000-7f31000 r--p 00000000 08:01 18   /usr/lib/libcrypto.so.3\n"
      "7ffc000-7ffd000 rw-p 00000000 00:00 0    [stack]\n";
  CHECK(bases_of_environ(maps, "/usr/bin/python3.11") ==
        std::vector<std::uint64_t>{0x55d0000, 0x7f20000});
  CHECK(bases_of_environ(maps, "") == std::vector<std::uint64_t>{0x7f20000});
  CHECK(bases_of_environ("rubbish\n-\n \n/\n", "/").empty());
}

TEST_CASE(
    "live environment: the first entry with a name counts; an unterminated list is an error") {
  std::vector<std::byte> bytes;
  put(bytes, 0, kBase + 8);
  put(bytes, 8, kBase + 0x100);
  put(bytes, 16, kBase + 0x200);
  put(bytes, 24, kBase + 0x300);
  put(bytes, 32, std::uint64_t{0});
  put_text(bytes, 0x100, "PORT=1");
  put_text(bytes, 0x200, "no variable");
  put_text(bytes, 0x300, "PORT=2");
  put(bytes, 0x3ff, char{0});
  bytes.resize(0x1000);
  const auto found = variables_at(memory(bytes), kBase, {"PORT", "HOST"});
  REQUIRE(found);
  CHECK(*found == std::map<std::string, std::string>{{"PORT", "1"}});
  bytes.resize(30);
  CHECK_FALSE(variables_at(memory(bytes), kBase, {"PORT"}));
  CHECK_FALSE(variables_at(memory(bytes), kBase + 0x5000, {"PORT"}));
}

TEST_CASE("live environment: truncates a long value") {
  std::vector<std::byte> bytes;
  put(bytes, 0, kBase + 8);
  put(bytes, 8, kBase + 0x100);
  put(bytes, 16, std::uint64_t{0});
  put_text(bytes, 0x100, "PORT=" + std::string(1000, '7'));
  bytes.resize(0x1000);
  const auto found = variables_at(memory(bytes), kBase, {"PORT"});
  REQUIRE(found);
  CHECK(found->at("PORT").size() == kVariableBytesMax - 5);
}

TEST_CASE("live environment: sees variables that a child has set since it was started") {
  int ready[2];
  REQUIRE(::pipe(ready) == 0);
  const pid_t child = ::fork();
  if (child == 0) {
    ::setenv("MUSTER_TEST_LIVE", "set later", 1);  // NOLINT(concurrency-mt-unsafe)
    ::unsetenv("PATH");                            // NOLINT(concurrency-mt-unsafe)
    static_cast<void>(::write(ready[1], "x", 1));
    ::pause();
    ::_exit(0);
  }
  char told = 0;
  REQUIRE(::read(ready[0], &told, 1) == 1);
  const auto found = live_variables(child, {"MUSTER_TEST_LIVE", "PATH", "HOME"});
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  ::close(ready[0]);
  ::close(ready[1]);
  REQUIRE(found);
  CHECK(found->at("MUSTER_TEST_LIVE") == "set later");
  CHECK_FALSE(found->contains("PATH"));
  CHECK_FALSE(live_variables(child, {"PATH"}));  // it has exited
}
