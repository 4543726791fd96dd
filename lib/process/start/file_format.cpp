// SPDX-License-Identifier: Apache-2.0
#include "process/start/file_format.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <array>

#include <elf.h>

namespace muster {
namespace {

constexpr std::size_t kMachineAt = 18;  // offset of e_machine, in both ELF classes

struct Machine {
  unsigned number;
  int elf_class;   // 0 matches both classes
  int byte_order;  // 0 matches both byte orders
  std::string_view name;
};

// Names as in uname(2).
constexpr std::array kMachines{Machine{EM_X86_64, ELFCLASS64, 0, "x86_64"},
                               Machine{EM_X86_64, ELFCLASS32, 0, "x32"},
                               Machine{EM_386, 0, 0, "i386"},
                               Machine{EM_AARCH64, 0, 0, "aarch64"},
                               Machine{EM_ARM, 0, 0, "arm"},
                               Machine{EM_PPC64, 0, ELFDATA2LSB, "ppc64le"},
                               Machine{EM_PPC64, 0, ELFDATA2MSB, "ppc64"},
                               Machine{EM_RISCV, ELFCLASS64, 0, "riscv64"},
                               Machine{EM_S390, ELFCLASS64, 0, "s390x"},
                               Machine{258, 0, 0, "loongarch64"}};

unsigned byte_at(std::string_view text, std::size_t at) {
  return static_cast<unsigned char>(text[at]);
}

std::string machine_of(std::string_view head) {
  const int elf_class = static_cast<int>(byte_at(head, EI_CLASS));
  const int byte_order = static_cast<int>(byte_at(head, EI_DATA));
  const bool big = byte_order == ELFDATA2MSB;
  const unsigned number =
      byte_at(head, kMachineAt + (big ? 1 : 0)) + 256 * byte_at(head, kMachineAt + (big ? 0 : 1));
  const auto found = std::ranges::find_if(kMachines, [&](const Machine& one) {
    return one.number == number && (one.elf_class == 0 || one.elf_class == elf_class) &&
           (one.byte_order == 0 || one.byte_order == byte_order);
  });
  return found == kMachines.end() ? fmt::format("ELF machine {}", number)
                                  : std::string(found->name);
}

bool is_mach_o(std::string_view head) {
  constexpr auto kMagic =
      std::to_array<std::string_view>({"\xcf\xfa\xed\xfe", "\xce\xfa\xed\xfe", "\xca\xfe\xba\xbe"});
  return std::ranges::any_of(kMagic, [&](std::string_view one) { return head.starts_with(one); });
}

}  // namespace

std::string why_not_executed(std::string_view head, std::string_view machine) {
  if (head.starts_with(ELFMAG) && head.size() > kMachineAt + 1) {
    const std::string other = machine_of(head);
    return other == machine
               ? "the file is damaged or is not a program (perhaps an object file or a partial "
                 "copy)"
               : fmt::format("it was built for {}, but this machine is {}", other, machine);
  }
  if (is_mach_o(head)) {
    return "it is a macOS program";
  }
  if (head.starts_with("MZ")) {
    return "it is a Windows program";
  }
  return "it is neither a program for this machine nor a script";
}

}  // namespace muster
