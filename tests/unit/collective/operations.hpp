// SPDX-License-Identifier: Apache-2.0
// What every backend must do, for tests: the inputs of all ranks of one operation, the buffers of
// one rank, and a check that the results are correct and bitwise equal on all ranks.
#pragma once

#include "collective/transport/transport.hpp"
#include "unit/collective/reference.hpp"

#include <span>
#include <string>
#include <vector>

namespace muster::collective::testing {

// One operation among n ranks: created once, read by all of them.
struct Operation {
  Request request;  // without pointers
  std::size_t ranks = 1;
  bool in_place = false;
  int hosts = 0;  // number of hosts in a multi-step all-reduce
  std::vector<Bytes> inputs;

  Operation(Request r, std::size_t n, std::uint64_t seed, bool place = false)
      : request(r), ranks(n), in_place(place) {
    for (std::size_t i = 0; i < n; ++i) {
      inputs.push_back(random_elements(r.dtype, in_count(), seed * 1000 + i));
    }
  }

  [[nodiscard]] std::size_t in_count() const {
    const bool blocks = request.kind == Kind::reduce_scatter || request.kind == Kind::all_to_all;
    return request.count * (blocks ? ranks : 1);
  }

  [[nodiscard]] std::size_t out_count() const {
    const bool blocks = request.kind == Kind::all_gather || request.kind == Kind::all_to_all;
    return request.count * (blocks ? ranks : 1);
  }

  [[nodiscard]] std::size_t width() const { return size_of(request.dtype); }

  // Bytes of memory that one rank needs, and the offsets of its input and output.
  [[nodiscard]] std::size_t room() const {
    return in_place ? std::max(in_count(), out_count()) * width()
                    : (in_count() + out_count()) * width();
  }

  [[nodiscard]] std::size_t in_at(std::size_t rank) const {
    return in_place && request.kind == Kind::all_gather ? rank * request.count * width() : 0;
  }

  [[nodiscard]] std::size_t out_at(std::size_t rank) const {
    if (!in_place) {
      return in_count() * width();
    }
    return request.kind == Kind::reduce_scatter ? rank * request.count * width() : 0;
  }

  // Writes the rank's input to its memory.
  void fill(char* memory, std::size_t rank) const {
    const bool root = static_cast<int>(rank) == request.root;
    if (request.kind == Kind::broadcast) {
      Bytes nothing(inputs[rank].size(), 'n');
      const Bytes& from = root ? inputs[rank] : nothing;
      std::copy(from.begin(), from.end(), memory + out_at(rank));
    } else {
      std::copy(inputs[rank].begin(), inputs[rank].end(), memory + in_at(rank));
    }
  }

  [[nodiscard]] Bytes output(const char* memory, std::size_t rank) const {
    const char* const from = memory + out_at(rank);
    return {from, from + out_count() * width()};
  }

  [[nodiscard]] std::vector<const Bytes*> all() const {
    std::vector<const Bytes*> out;
    for (const Bytes& input : inputs) {
      out.push_back(&input);
    }
    return out;
  }

  // "" or the error in the outputs of all ranks.
  [[nodiscard]] std::string check(const std::vector<Bytes>& outputs) const {
    for (const Bytes& output : outputs) {
      if (output.size() != out_count() * width()) {
        return "a rank has no output";
      }
    }
    switch (request.kind) {
      case Kind::barrier:
        return "";
      case Kind::all_reduce:
        for (const Bytes& output : outputs) {
          if (output != outputs[0]) {
            return "not the same bits on all ranks";
          }
        }
        return compare(outputs[0], fold(hosts), all());
      case Kind::reduce:
        return compare(outputs[static_cast<std::size_t>(request.root)], fold(0), all());
      case Kind::reduce_scatter: {
        Bytes whole;
        for (const Bytes& output : outputs) {
          whole.insert(whole.end(), output.begin(), output.end());
        }
        return compare(whole, fold(0), all());
      }
      default:
        return check_copies(outputs);
    }
  }

 private:
  [[nodiscard]] Fold fold(int steps) const {
    return {request.op, request.dtype, request.scale, steps};
  }

  [[nodiscard]] std::string check_copies(const std::vector<Bytes>& outputs) const {
    const std::size_t block = request.count * width();
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      for (std::size_t i = 0; i < (request.kind == Kind::broadcast ? 1 : ranks); ++i) {
        const bool cast = request.kind == Kind::broadcast;
        const std::size_t from = cast ? static_cast<std::size_t>(request.root) : i;
        const std::size_t shift = request.kind == Kind::all_to_all ? rank * block : 0;
        if (!std::equal(outputs[rank].begin() + static_cast<std::ptrdiff_t>(i * block),
                        outputs[rank].begin() + static_cast<std::ptrdiff_t>((i + 1) * block),
                        inputs[from].begin() + static_cast<std::ptrdiff_t>(shift))) {
          return "rank " + std::to_string(rank) + " has not block " + std::to_string(i);
        }
      }
    }
    return "";
  }
};

}  // namespace muster::collective::testing
