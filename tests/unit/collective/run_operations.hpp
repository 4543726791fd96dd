// SPDX-License-Identifier: Apache-2.0
// Runs operations on the ranks of a World, one by one or all at once, and checks them against the
// reference; lists of such operations. For the tests of every backend.
#pragma once

#include "unit/collective/operations.hpp"
#include "unit/collective/world.hpp"

#include <string>
#include <vector>

namespace muster::collective::testing {

inline Buffer floats(std::vector<float>& data) {
  return {data.data(), data.size(), DType::f32};
}

inline Result<Work> call(Communicator& comm, const Operation& operation, char* memory, bool async) {
  const auto rank = static_cast<std::size_t>(comm.rank());
  const DType t = operation.request.dtype;
  const ConstBuffer in(memory + operation.in_at(rank), operation.in_count(), t);
  const Buffer out{memory + operation.out_at(rank), operation.out_count(), t};
  const OpOptions options{.scale = operation.request.scale, .async = async};
  const Request& r = operation.request;
  switch (r.kind) {
    case Kind::all_reduce:
      return comm.all_reduce(in, out, r.op, options);
    case Kind::reduce:
      return comm.reduce(in, out, r.op, r.root, options);
    case Kind::broadcast:
      return comm.broadcast(out, r.root, options);
    case Kind::all_gather:
      return comm.all_gather(in, out, options);
    case Kind::reduce_scatter:
      return comm.reduce_scatter(in, out, r.op, options);
    default:
      return comm.all_to_all(in, out, options);
  }
}

// All at once if they are asynchronous.
inline std::vector<std::string> run_all(const World& world,
                                        const std::vector<Operation>& operations,
                                        bool async) {
  const auto ranks = static_cast<std::size_t>(world.ranks);
  std::vector<std::vector<Bytes>> outputs(operations.size(), std::vector<Bytes>(ranks));
  std::vector<std::string> errors(ranks);
  world.run([&](Communicator& comm) {
    const auto self = static_cast<std::size_t>(comm.rank());
    std::vector<Bytes> memory;
    std::vector<Work> works;
    for (const Operation& operation : operations) {
      memory.emplace_back(operation.room() + 1);
      operation.fill(memory.back().data(), self);
    }
    for (std::size_t k = 0; k < operations.size(); ++k) {
      const auto work = call(comm, operations[k], memory[k].data(), async);
      if (!work) {
        errors[self] = work.error().text;
        return;
      }
      works.push_back(*work);
    }
    for (std::size_t k = 0; k < operations.size(); ++k) {
      if (const auto done = works[k].wait(); !done) {
        errors[self] = done.error().text;
      }
      outputs[k][self] = operations[k].output(memory[k].data(), self);
    }
  });
  for (std::size_t k = 0; k < operations.size(); ++k) {
    errors.push_back(operations[k].check(outputs[k]));
  }
  std::erase(errors, "");
  return errors;
}

inline std::vector<Operation> some_operations(std::size_t ranks, std::uint64_t seed) {
  std::vector<Operation> out;
  for (const Kind kind : {Kind::all_reduce,
                          Kind::reduce,
                          Kind::broadcast,
                          Kind::all_gather,
                          Kind::reduce_scatter,
                          Kind::all_to_all}) {
    for (const std::size_t count : {0UL, 1UL, 1001UL, 40001UL}) {
      Request request;
      request.kind = kind;
      request.count = count;
      request.dtype = DType::f32;
      request.op = Op::avg;
      request.root = kind == Kind::reduce || kind == Kind::broadcast ? 0 : -1;
      out.emplace_back(request, ranks, seed);
    }
  }
  return out;
}

}  // namespace muster::collective::testing
