// SPDX-License-Identifier: Apache-2.0
#include "fakes/cuda/ptx_run.hpp"

#include "fakes/cuda/ptx_half.hpp"

#include <algorithm>
#include <cstring>

namespace muster::fake {
namespace {

enum class Trouble { none, unwritten, shift, misaligned, unforeseen, endless };

// The memory of a dry run: notes the uses.
class NotedMemory {
 public:
  bool use(const ThreadUse& use) {
    uses_.push_back(use);
    return true;
  }

  static std::uint64_t load(std::uint64_t /*address*/, std::size_t /*bytes*/) { return 0; }

  static void store(std::uint64_t /*address*/, std::size_t /*bytes*/, std::uint64_t /*value*/) {}

  std::vector<ThreadUse> take() { return std::move(uses_); }

 private:
  std::vector<ThreadUse> uses_;
};

// The real one.
class DeviceMemory {
 public:
  explicit DeviceMemory(const Uses& uses) : uses_(uses) {}

  [[nodiscard]] bool use(const ThreadUse& use) const { return uses_.allow(use); }

  static std::uint64_t load(std::uint64_t address, std::size_t bytes) {
    std::uint64_t value = 0;
    std::memcpy(&value, reinterpret_cast<const void*>(address), bytes);
    return value;
  }

  static void store(std::uint64_t address, std::size_t bytes, std::uint64_t value) {
    std::memcpy(reinterpret_cast<void*>(address), &value, bytes);
  }

 private:
  const Uses& uses_;
};

// One thread of the grid at a time.
template <class Memory>
class Machine {
 public:
  Machine(const Kernel& kernel, const Launch& launch, Memory& memory)
      : kernel_(kernel), launch_(launch), memory_(memory) {
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
      if (now.op == Op::branch || now.op == Op::branch_if || now.op == Op::branch_unless) {
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
    return now.op == Op::branch || (from(now, 0) != 0) == (now.op == Op::branch_if);
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

  // Values are kept without sign and with zeros above their type's bits, so that one comparison
  // does for all types.
  [[nodiscard]] std::uint64_t result(const Instruction& now) const {
    const std::uint64_t a = from(now, 0);
    const std::uint64_t b = from(now, 1);
    switch (now.op) {
      case Op::add:
        return a + b;
      case Op::multiply:
        return a * b;
      case Op::multiply_add:
        return a * b + from(now, 2);
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
      case Op::less:
        return a < b ? 1 : 0;
      case Op::less_equal:
        return a <= b ? 1 : 0;
      case Op::greater:
        return a > b ? 1 : 0;
      case Op::greater_equal:
        return a >= b ? 1 : 0;
      case Op::equal:
        return a == b ? 1 : 0;
      case Op::not_equal:
        return a != b ? 1 : 0;
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
    std::uint64_t address = from(now, 0) + now.offset;
    if (address % bytes != 0) {
      return Trouble::misaligned;
    }
    if (!memory_.use({address, number_, now.line, bytes, writes})) {
      return Trouble::unforeseen;
    }
    for (std::size_t i = 0; i < count; ++i, address += now.bytes) {
      if (writes) {
        memory_.store(address, now.bytes, from(now, i + 1));
      } else {
        set(now.to[i], memory_.load(address, now.bytes));
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
  Memory& memory_;
  std::vector<std::uint64_t> values_;
  std::vector<std::uint8_t> never_written_;  // of each slot, when a thread begins
  std::vector<std::uint8_t> unwritten_;
  std::uint64_t number_ = 0;
  const Instruction* at_ = nullptr;
};

}  // namespace

std::expected<Uses, std::string> foresee(const Kernel& kernel, const Launch& launch) {
  NotedMemory memory;
  if (auto trouble = Machine(kernel, launch, memory).run()) {
    return std::unexpected(*std::move(trouble));
  }
  auto uses = gather(memory.take());
  return uses ? std::move(uses) : std::unexpected(kernel.name + ": " + uses.error());
}

std::optional<std::string> run_kernel(const Kernel& kernel,
                                      const Launch& launch,
                                      const Uses& uses) {
  DeviceMemory memory(uses);
  return Machine(kernel, launch, memory).run();
}

}  // namespace muster::fake
