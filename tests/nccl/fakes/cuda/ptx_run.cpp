// SPDX-License-Identifier: Apache-2.0
#include "nccl/fakes/cuda/ptx_run.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

namespace muster::fake {
namespace {

enum class Trouble { none, unwritten, shift, misaligned, unforeseen, endless };

// __extension__: it is not an ISO C++ type.
__extension__ using Half = _Float16;

// As in PTX, every NaN becomes the same bit pattern.
std::uint16_t narrow_to_f16(std::uint32_t bits) {
  const auto value = std::bit_cast<float>(bits);
  return std::isnan(value) ? 0x7fff : std::bit_cast<std::uint16_t>(static_cast<Half>(value));
}

std::uint32_t widen_from_f16(std::uint16_t bits) {
  const auto value = static_cast<float>(std::bit_cast<Half>(bits));
  return std::isnan(value) ? 0x7fffffff : std::bit_cast<std::uint32_t>(value);
}

// Runs one thread of the grid at a time. A dry run records memory uses, loads zeros and stores
// nothing.
class Machine {
 public:
  // `allowed` is null in a dry run.
  Machine(const Kernel& kernel, const Launch& launch, const Uses* allowed)
      : kernel_(kernel), launch_(launch), allowed_(allowed) {
    for (const Slot& slot : kernel.slots) {
      values_.push_back(slot.value);
      never_written_.push_back(slot.is_register() ? 1 : 0);
    }
    values_[ntid] = launch.threads;
    values_[nctaid] = launch.blocks;
    std::ranges::copy(launch.parameters, values_.begin() + special_slots);
  }

  std::optional<std::string> run() {
    for (std::uint32_t block = 0; block < launch_.blocks; ++block) {
      for (std::uint32_t thread = 0; thread < launch_.threads; ++thread) {
        values_[ctaid] = block;
        values_[tid] = thread;
        unwritten_ = never_written_;
        number_ = std::uint64_t{block} * launch_.threads + thread;
        const Trouble trouble = run_thread();
        if (trouble != Trouble::none) {
          return sentence(trouble);
        }
      }
    }
    return std::nullopt;
  }

  [[nodiscard]] std::vector<ThreadUse> take_uses() { return std::move(noted_); }

 private:
  Trouble run_thread() {
    const Instruction* const code = kernel_.code.data();
    at_ = code;
    for (std::uint64_t count = 0; count < kInstructionsMax; ++count) {
      const Instruction& now = *at_;
      if (now.op == Op::end) {
        return Trouble::none;
      }
      if (first_unwritten(now) < now.sources) {
        return Trouble::unwritten;
      }
      if (now.op == Op::branch || now.op == Op::branch_if) {
        at_ = goes(now) ? code + now.next : at_ + 1;
        continue;
      }
      const Trouble trouble = step(now);
      if (trouble != Trouble::none) {
        return trouble;
      }
      ++at_;
    }
    return Trouble::endless;
  }

  [[nodiscard]] std::size_t first_unwritten(const Instruction& now) const {
    std::size_t i = 0;
    while (i < now.sources && unwritten_[now.from[i]] == 0) {
      ++i;
    }
    return i;
  }

  [[nodiscard]] std::uint64_t from(const Instruction& now, std::size_t i) const {
    return values_[now.from[i]];
  }

  [[nodiscard]] bool goes(const Instruction& now) const {
    return now.op == Op::branch || from(now, 0) != 0;
  }

  void set(SlotNumber slot, std::uint64_t value) {
    values_[slot] = value;
    unwritten_[slot] = 0;
  }

  Trouble step(const Instruction& now) {
    if (now.op == Op::load || now.op == Op::store) {
      return move(now);
    }
    const bool shifts = now.op == Op::shift_left || now.op == Op::shift_right;
    if (shifts && from(now, 1) >= (now.mask >> 32 == 0 ? 32 : 64)) {
      return Trouble::shift;
    }
    set(now.to[0], result(now) & now.mask);
    return Trouble::none;
  }

  // Values are stored unsigned and zero-extended from their type's width, so that one comparison
  // serves all types.
  [[nodiscard]] std::uint64_t result(const Instruction& now) const {
    const std::uint64_t a = from(now, 0);
    const std::uint64_t b = from(now, 1);
    switch (now.op) {
      case Op::add:
        return a + b;
      case Op::multiply:
        return a * b;
      case Op::shift_left:
        return a << b;
      case Op::shift_right:
        return a >> b;
      case Op::bit_and:
        return a & b;
      case Op::bit_or:
        return a | b;
      case Op::select:
        return from(now, 2) != 0 ? a : b;
      case Op::greater:
        return a > b ? 1 : 0;
      case Op::greater_equal:
        return a >= b ? 1 : 0;
      case Op::narrow_f16:
        return narrow_to_f16(static_cast<std::uint32_t>(a));
      case Op::widen_f16:
        return widen_from_f16(static_cast<std::uint16_t>(a));
      default:
        return a;
    }
  }

  Trouble move(const Instruction& now) {
    const bool writes = now.op == Op::store;
    const std::size_t count = writes ? now.sources - 1U : now.targets;
    const auto bytes = static_cast<std::uint16_t>(now.bytes * count);
    std::uint64_t address = from(now, 0);
    if (address % bytes != 0) {
      return Trouble::misaligned;
    }
    const ThreadUse use{address, number_, now.line, bytes, writes};
    if (allowed_ == nullptr) {
      noted_.push_back(use);
    } else if (!allowed_->allow(use)) {
      return Trouble::unforeseen;
    }
    for (std::size_t i = 0; i < count; ++i, address += now.bytes) {
      auto* const place = reinterpret_cast<void*>(address);
      std::uint64_t value = writes ? from(now, i + 1) : 0;
      if (allowed_ != nullptr) {
        std::memcpy(writes ? place : &value, writes ? &value : place, now.bytes);
      }
      if (!writes) {
        set(now.to[i], value);
      }
    }
    return Trouble::none;
  }

  [[nodiscard]] std::string sentence(Trouble trouble) const {
    const std::string where = kernel_.name + ", line " + std::to_string(at_->line) + ": thread " +
                              std::to_string(number_);
    switch (trouble) {
      case Trouble::unwritten:
        return where + " reads " + kernel_.slots[at_->from[first_unwritten(*at_)]].name +
               ", which it never wrote";
      case Trouble::shift:
        return where + " shifts by " + std::to_string(from(*at_, 1)) + " bits, beyond the type's";
      case Trouble::misaligned:
        return where + " uses an address that is no multiple of what it loads or stores there";
      case Trouble::unforeseen:
        return where + " uses memory by what it has loaded, which the fake cannot follow";
      default:
        return where + " has run " + std::to_string(kInstructionsMax) +
               " instructions: it does not end";
    }
  }

  const Kernel& kernel_;
  const Launch& launch_;
  const Uses* allowed_;
  std::vector<ThreadUse> noted_;
  std::vector<std::uint64_t> values_;
  std::vector<std::uint8_t> never_written_;  // for each slot, at the start of a thread
  std::vector<std::uint8_t> unwritten_;
  std::uint64_t number_ = 0;
  const Instruction* at_ = nullptr;
};

}  // namespace

std::expected<Uses, std::string> foresee(const Kernel& kernel, const Launch& launch) {
  Machine machine(kernel, launch, nullptr);
  if (auto trouble = machine.run()) {
    return std::unexpected(*std::move(trouble));
  }
  auto uses = gather(machine.take_uses());
  return uses ? std::move(uses) : std::unexpected(kernel.name + ": " + uses.error());
}

std::optional<std::string> run_kernel(const Kernel& kernel,
                                      const Launch& launch,
                                      const Uses& uses) {
  return Machine(kernel, launch, &uses).run();
}

}  // namespace muster::fake
