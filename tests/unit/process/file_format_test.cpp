// SPDX-License-Identifier: Apache-2.0
#include "process/start/file_format.hpp"

#include "support/catch.hpp"

using namespace muster;

namespace {

// The first 20 bytes of an ELF file.
std::string elf(char elf_class, char byte_order, unsigned machine) {
  std::string out(20, '\0');
  out.replace(0,
              4,
              "\x7f"
              "ELF");
  out[4] = elf_class;
  out[5] = byte_order;
  const bool big = byte_order == 2;
  out[18] = static_cast<char>(big ? machine >> 8U : machine & 255U);
  out[19] = static_cast<char>(big ? machine & 255U : machine >> 8U);
  return out;
}

}  // namespace

TEST_CASE("file format: the machine for which a program was built") {
  struct Row {
    std::string head;
    std::string name;
  };

  for (const Row& row : {Row{elf(2, 1, 183), "aarch64"},
                         {elf(1, 1, 3), "i386"},
                         {elf(1, 1, 62), "x32"},
                         {elf(2, 1, 21), "ppc64le"},
                         {elf(2, 2, 21), "ppc64"},
                         {elf(2, 2, 22), "s390x"},
                         {elf(2, 1, 243), "riscv64"},
                         {elf(2, 1, 258), "loongarch64"},
                         {elf(2, 1, 999), "ELF machine 999"}}) {
    CHECK(why_not_executed(row.head, "x86_64") ==
          "it was built for " + row.name + ", but this machine is x86_64");
  }
  CHECK(why_not_executed(elf(2, 1, 62), "aarch64") ==
        "it was built for x86_64, but this machine is aarch64");
}

TEST_CASE("file format: files that are not programs for another machine") {
  CHECK(why_not_executed(elf(2, 1, 62), "x86_64").starts_with("the file is damaged"));
  CHECK(why_not_executed("\xcf\xfa\xed\xfe", "x86_64") == "it is a macOS program");
  CHECK(why_not_executed("MZ", "x86_64") == "it is a Windows program");
  for (const std::string& head : {std::string(), elf(2, 1, 62).substr(0, 19)}) {
    CHECK(why_not_executed(head, "x86_64").starts_with("it is neither a program"));
  }
}
