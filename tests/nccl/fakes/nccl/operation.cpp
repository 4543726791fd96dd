// SPDX-License-Identifier: Apache-2.0
#include "nccl/fakes/nccl/operation.hpp"

#include "nccl/fakes/violation.hpp"

#include <algorithm>
#include <csignal>
#include <cstring>

namespace muster::fake {
namespace {

const char* name_of(What what) {
  constexpr std::array kNames = {"all_reduce",
                                 "reduce",
                                 "broadcast",
                                 "reduce_scatter",
                                 "all_gather",
                                 "all_to_all",
                                 "send",
                                 "recv"};
  return kNames.at(static_cast<std::size_t>(what));
}

const char* at(const void* data, std::size_t bytes) {
  return static_cast<const char*>(data) + bytes;
}

char* at(void* data, std::size_t bytes) {
  return static_cast<char*>(data) + bytes;
}

bool is_float(ncclDataType_t type) {
  return type == ncclFloat16 || type == ncclFloat32 || type == ncclFloat64 ||
         type == ncclBfloat16 || type == ncclFloat8e4m3 || type == ncclFloat8e5m2;
}

}  // namespace

// An average of floats is a sum of values multiplied by one over the number of ranks.
bool multiplies_on_one_rank(const Operation& operation, const Comm& comm) {
  const Reduction& by = operation.reduction;
  return comm.size == 1 && (by.has_scalar || (by.op == ncclAvg && is_float(operation.type)));
}

namespace {

// What one rank provides to the others, and what they compute from it.
class Exchange {
 public:
  Exchange(Comm& comm, const Operation& operation)
      : comm_(comm), segment_(*comm.segment), op_(operation), width_(bytes_of(operation.type)) {}

  [[nodiscard]] Came run() {
    Came came = compare();
    const std::size_t total = bytes_in(op_, comm_);
    // Ranks without their own data (in a broadcast) take part in the same number of rounds.
    const std::size_t rounds = multiplies_on_one_rank(op_, comm_)
                                   ? taken_by_one_rank()
                                   : std::max<std::size_t>(total, op_.count * width_);
    for (std::size_t from = 0; from < rounds && came == Came::yes; from += kChunk) {
      came = round(from, std::min(kChunk, rounds - from));
    }
    return came;
  }

 private:
  // NCCL does not compare the calls, so our library must do it first.
  [[nodiscard]] Came compare() {
    auto& text = segment_.own().call;
    std::strncpy(text.data(), describe(op_).c_str(), text.size() - 1);
    Came came = segment_.barrier(Where::operation);
    for (int rank = 0; rank < comm_.size && came == Came::yes; ++rank) {
      if (std::strncmp(text.data(), segment_.member(rank).call.data(), text.size() - 1) != 0) {
        violation("ranks meet in different operations: rank " + std::to_string(comm_.rank) +
                  " calls " + text.data() + ", rank " + std::to_string(rank) + " calls " +
                  segment_.member(rank).call.data());
      }
    }
    return came == Came::yes ? segment_.barrier(Where::operation) : came;
  }

  // As in NCCL 2.28.9 (src/device/onerank.cu): the remainder after division among its blocks is
  // skipped.
  [[nodiscard]] std::size_t taken_by_one_rank() const {
    const std::size_t blocks =
        std::clamp<std::size_t>((op_.count * width_ + (16UL << 10) - 1) >> 14, 1, 32);
    const std::size_t of_block = (op_.count / blocks * width_ + 15) / 16 * 16;
    return std::min(blocks * of_block, op_.count * width_);
  }

  [[nodiscard]] Came round(std::size_t from, std::size_t bytes) {
    const bool gives = op_.what != What::broadcast || op_.root == comm_.rank;
    if (gives) {
      std::memcpy(segment_.own().data.data(), at(op_.in, from), bytes);
    }
    Came came = segment_.barrier(Where::operation);
    if (came == Came::yes) {
      take(from, bytes);
      came = segment_.barrier(Where::operation);
    }
    return came;
  }

  void take(std::size_t from, std::size_t bytes) {
    switch (op_.what) {
      case What::all_reduce:
        sum(at(op_.out, from), 0, bytes);
        break;
      case What::reduce:
        if (op_.root == comm_.rank) {
          sum(at(op_.out, from), 0, bytes);
        }
        break;
      case What::broadcast:
        std::memcpy(at(op_.out, from), segment_.member(op_.root).data.data(), bytes);
        break;
      case What::reduce_scatter:
        take_own_block(from, bytes);
        break;
      case What::all_gather:
        for (int rank = 0; rank < comm_.size; ++rank) {
          std::memcpy(at(op_.out, block(rank) + from), segment_.member(rank).data.data(), bytes);
        }
        break;
      case What::all_to_all:
        take_blocks(from, bytes);
        break;
      case What::send:
      case What::recv:
        break;
    }
  }

  [[nodiscard]] std::size_t block(int rank) const {
    return static_cast<std::size_t>(rank) * op_.count * width_;
  }

  // The round's part of our input block.
  void take_own_block(std::size_t from, std::size_t bytes) {
    const std::size_t begin = std::max(from, block(comm_.rank));
    const std::size_t end = std::min(from + bytes, block(comm_.rank + 1));
    if (begin < end) {
      sum(at(op_.out, begin - block(comm_.rank)), begin - from, end - begin);
    }
  }

  // From each rank, the round's part of our block in its input.
  void take_blocks(std::size_t from, std::size_t bytes) {
    const std::size_t begin = std::max(from, block(comm_.rank));
    const std::size_t end = std::min(from + bytes, block(comm_.rank + 1));
    for (int rank = 0; rank < comm_.size && begin < end; ++rank) {
      std::memcpy(at(op_.out, block(rank) + begin - block(comm_.rank)),
                  at(segment_.member(rank).data.data(), begin - from),
                  end - begin);
    }
  }

  void sum(void* out, std::size_t offset, std::size_t bytes) {
    std::vector<const void*> parts;
    for (int rank = 0; rank < comm_.size; ++rank) {
      parts.push_back(at(static_cast<const void*>(segment_.member(rank).data.data()), offset));
    }
    reduce(op_.type, op_.reduction, parts, out, bytes / width_);
  }

  Comm& comm_;
  Segment& segment_;
  const Operation& op_;
  std::size_t width_;
};

// The sends and receives of one group, which progress together.
struct Transfer {
  const Operation* operation;
  std::size_t done = 0;
};

bool advance(Comm& comm, Transfer& transfer) {
  const Operation& op = *transfer.operation;
  const std::size_t total = op.count * bytes_of(op.type);
  const bool sends = op.what == What::send;
  Mailbox& box =
      sends ? comm.segment->mail(comm.rank, op.root) : comm.segment->mail(op.root, comm.rank);
  while (transfer.done < total && (box.full != 0) != sends) {
    const std::size_t bytes = std::min(kChunk, total - transfer.done);
    if (sends) {
      std::memcpy(box.data.data(), at(op.in, transfer.done), bytes);
    } else {
      std::memcpy(at(op.out, transfer.done), box.data.data(), bytes);
    }
    transfer.done += bytes;
    box.full = sends ? 1 : 0;
  }
  return transfer.done == total;
}

Came run_transfers(Comm& comm, std::vector<Transfer> transfers) {
  Came came = Came::yes;
  while (came == Came::yes) {
    std::erase_if(transfers, [&](Transfer& transfer) { return advance(comm, transfer); });
    comm.segment->wake();
    if (transfers.empty()) {
      return came;
    }
    came = comm.segment->pause();
  }
  return came;
}

void wait_for_abort(Comm& comm) {
  while (comm.segment->pause() != Came::aborted) {
  }
}

// Whether the kernel continues after the faults of this operation.
bool survives_faults(Comm& comm, const Operation& operation) {
  const auto number = static_cast<long>(operation.number);
  if (comm.knobs.die_at == number) {
    std::raise(SIGKILL);
  }
  if (comm.knobs.async_error_at == number) {
    set_last_error("fake: a network error, as the test asked for");
    comm.fail(static_cast<ncclResult_t>(comm.knobs.async_error));
  }
  return comm.knobs.async_error_at != number && comm.knobs.hang_at != number;
}

}  // namespace

std::string describe(const Operation& operation) {
  return std::string(name_of(operation.what)) + " " + name_of(operation.type) + "[" +
         std::to_string(operation.count) + "] op " +
         std::to_string(static_cast<int>(operation.reduction.op)) + " root " +
         std::to_string(operation.root);
}

std::size_t bytes_in(const Operation& operation, const Comm& comm) {
  const std::size_t one = operation.count * bytes_of(operation.type);
  const auto size = static_cast<std::size_t>(comm.size);
  switch (operation.what) {
    case What::reduce_scatter:
    case What::all_to_all:
      return one * size;
    case What::broadcast:
      return operation.root == comm.rank ? one : 0;
    case What::recv:
      return 0;
    default:
      return one;
  }
}

std::size_t bytes_out(const Operation& operation, const Comm& comm) {
  const std::size_t one = operation.count * bytes_of(operation.type);
  const auto size = static_cast<std::size_t>(comm.size);
  switch (operation.what) {
    case What::all_gather:
    case What::all_to_all:
      return one * size;
    case What::reduce:
      return operation.root == comm.rank ? one : 0;
    case What::send:
      return 0;
    default:
      return one;
  }
}

void run_kernel(Comm& comm, std::vector<Operation>& operations) {
  if (comm.segment->abort) {
    return;  // queued after one that the abort has ended; its place at the gate is still occupied
  }
  Came came = Came::yes;
  std::vector<Transfer> transfers;
  for (const auto& operation : operations) {
    if (!survives_faults(comm, operation)) {
      wait_for_abort(comm);
      return;
    }
    if (operation.what == What::send || operation.what == What::recv) {
      transfers.push_back({&operation});
    } else if (came == Came::yes) {
      came = Exchange(comm, operation).run();
    }
  }
  if (came == Came::yes && !transfers.empty()) {
    came = run_transfers(comm, std::move(transfers));
  }
  if (came == Came::peer_gone) {
    set_last_error("fake: the connection to a peer was closed");
    comm.fail(ncclRemoteError);
    wait_for_abort(comm);
  }
}

}  // namespace muster::fake
