// SPDX-License-Identifier: Apache-2.0
// A worker for multi-process tests of the collective library: reads its rank from the environment,
// does what its first argument specifies, and prints one line for the test.
#include "collective/communicator.hpp"
#include "collective/gradient_sync.hpp"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <sys/wait.h>
#include <unistd.h>

namespace {

using namespace muster::collective;  // NOLINT(google-build-using-namespace): a program

using Floats = std::vector<float>;

std::uint64_t now_us() {
  return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::microseconds>(
                                        std::chrono::steady_clock::now().time_since_epoch())
                                        .count());
}

Buffer buffer(Floats& data) {
  return {data.data(), data.size(), DType::f32};
}

int fail(const Error& error) {
  std::printf("error %s rank %d seq %llu at %llu: %s\n",
              std::string(name_of(error.code)).c_str(),
              error.rank,
              static_cast<unsigned long long>(error.seq),
              static_cast<unsigned long long>(now_us()),
              error.text.c_str());
  std::fflush(stdout);
  return 9;
}

std::uint64_t hash(const Floats& data) {
  std::uint64_t out = 14695981039346656037U;
  for (const float value : data) {
    std::uint32_t bits = 0;
    std::memcpy(&bits, &value, sizeof(bits));
    out = (out ^ bits) * 1099511628211U;
  }
  return out;
}

// Sums of buffers whose elements depend on rank, position and size.
int sums(Communicator& comm) {
  std::uint64_t all = 0;
  for (const std::size_t count : {1UL, 3UL, 1000UL, 100003UL, 2000000UL}) {
    Floats data(count);
    for (std::size_t i = 0; i < count; ++i) {
      data[i] = 1.0F / static_cast<float>(i + 3 + static_cast<std::size_t>(comm.rank()));
    }
    const auto done = comm.all_reduce(buffer(data), buffer(data), Op::sum);
    if (!done) {
      return fail(done.error());
    }
    all = all * 31 + hash(data);
  }
  std::printf("sums %016llx of %d by %s\n",
              static_cast<unsigned long long>(all),
              comm.size(),
              std::string(name_of(comm.backend())).c_str());
  return 0;
}

// Repeats until an error, which is printed; `victim` calls `end` before its operation 100.
template <class End>
int loop(Communicator& comm, std::size_t count, int victim, const End& end) {
  Floats data(count, 1);
  for (int i = 1;; ++i) {
    if (i == 100 && comm.rank() == victim) {
      end();
    }
    const auto done = comm.all_reduce(buffer(data), buffer(data), Op::max);
    if (!done) {
      return fail(done.error());
    }
  }
}

void print_moment(const char* word) {
  std::printf("%s at %llu\n", word, static_cast<unsigned long long>(now_us()));
  std::fflush(stdout);
}

int die(Communicator& comm, std::size_t count, std::size_t megabytes) {
  std::vector<char> ballast(comm.rank() == 1 ? megabytes << 20 : 0, 'x');
  return loop(comm, count, 1, [&ballast] {
    print_moment("dies");
    ::kill(::getpid(), SIGKILL);
    ballast.clear();
  });
}

// In the middle of an operation: another thread kills the process.
int die_inside(Communicator& comm) {
  if (comm.rank() == 1) {
    ::alarm(1);  // its default action kills the process
  }
  return loop(comm, 3000000, -1, [] {});
}

int forks(Communicator& comm) {
  Floats data(10, 1);
  const pid_t child = ::fork();
  if (child == 0) {
    const auto done = comm.all_reduce(buffer(data), buffer(data), Op::sum);
    std::exit(!done && done.error().code == Errc::invalid_state ? 42 : 1);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  const auto done = comm.all_reduce(buffer(data), buffer(data), Op::sum);
  if (!done) {
    return fail(done.error());
  }
  std::printf("child %d, sum %g\n", WEXITSTATUS(status), static_cast<double>(data[0]));
  return 0;
}

// All-reduces of `count` elements until an error; in the library's memory if `direct`.
int reduce_for_ever(Communicator& comm, std::size_t count, bool direct, bool async) {
  Floats own(direct ? 0 : count, 1);
  void* memory = own.data();
  if (direct) {
    const auto allocated = comm.alloc(count * sizeof(float));
    if (!allocated) {
      return fail(allocated.error());
    }
    memory = *allocated;
  }
  const Buffer all{memory, count, DType::f32};
  print_moment("begins");
  while (true) {
    const auto started = comm.all_reduce(all, all, Op::max, {.async = async});
    const auto done = started ? started->wait() : Result<void>(std::unexpected(started.error()));
    if (!done) {
      return fail(done.error());
    }
  }
}

Result<void> gradient_step(GradientSync& sync, int gradients) {
  if (auto begun = sync.begin(); !begun) {
    return begun;
  }
  for (int id = gradients - 1; id >= 0; --id) {
    if (auto marked = sync.mark_ready(id); !marked) {
      return marked;
    }
  }
  const auto done = sync.wait();
  return done ? Result<void>() : std::unexpected(done.error());
}

int step_for_ever(Communicator& comm) {
  constexpr int kGradients = 4;
  GradientSync sync(comm, {.buckets = {.first = 1 << 16, .cap = 1 << 20}});
  for (int id = 0; id < kGradients; ++id) {
    if (const auto added = sync.add("p" + std::to_string(id), DType::f32, 500000); !added) {
      return fail(added.error());
    }
  }
  if (const auto made = sync.finalize(); !made) {
    return fail(made.error());
  }
  print_moment("begins");
  while (true) {
    if (const auto done = gradient_step(sync, kGradients); !done) {
      return fail(done.error());
    }
  }
}

// Creates and destroys communicators.
int split_for_ever(Communicator& comm) {
  print_moment("begins");
  while (true) {
    auto part = comm.split(0, comm.rank());
    if (!part) {
      return fail(part.error());
    }
    if (const auto met = (*part)->barrier(); !met) {
      return fail(met.error());
    }
  }
}

Result<void> over(Result<Work> started) {
  return started ? started->wait() : Result<void>(std::unexpected(std::move(started.error())));
}

// Repeats the step until an error.
template <class Step>
int repeat(const Step& step) {
  print_moment("begins");
  for (int i = 0;; ++i) {
    if (const auto done = step(i); !done) {
      return fail(done.error());
    }
  }
}

// Sends to the right and receives from the left at the same time.
Result<void> pass_on(Communicator& comm, const Buffer& out, const Buffer& in) {
  const int right = (comm.rank() + 1) % comm.size();
  const int left = (comm.rank() + comm.size() - 1) % comm.size();
  auto sent = comm.send(out, right, {.async = true});
  auto got = comm.recv(in, left, {.async = true});
  auto sent_all = over(std::move(sent));
  auto got_all = over(std::move(got));
  return sent_all ? std::move(got_all) : std::move(sent_all);
}

// All operations except all_reduce, on buffers that need several rounds.
int operation_for_ever(Communicator& comm, std::string_view what) {
  const auto size = static_cast<std::size_t>(comm.size());
  Floats mine(500000, 1);
  Floats everybodys(mine.size() * size, 1);
  const Buffer part = buffer(mine);
  const Buffer all = buffer(everybodys);
  return repeat([&](int i) -> Result<void> {
    const int root = i % comm.size();
    if (what == "reduce") {
      return over(comm.reduce(part, part, Op::max, root));
    }
    if (what == "broadcast") {
      return over(comm.broadcast(part, root));
    }
    if (what == "gathers") {
      const auto gathered = over(comm.all_gather(part, all));
      return gathered ? over(comm.reduce_scatter(all, part, Op::max)) : gathered;
    }
    if (what == "all-to-all") {
      Floats other(everybodys.size());
      return over(comm.all_to_all(all, buffer(other)));
    }
    Floats other(mine.size());
    return pass_on(comm, part, buffer(other));
  });
}

int alloc_for_ever(Communicator& comm) {
  return repeat([&](int i) -> Result<void> {
    const std::size_t count = 100000 + static_cast<std::size_t>(i % 7) * 100000;
    const auto memory = comm.alloc(count * sizeof(float));
    MUSTER_RETURN_IF_ERROR(memory);
    const Buffer all{*memory, count, DType::f32};
    const auto done = over(comm.all_reduce(all, all, Op::sum));
    return done ? comm.free(*memory) : done;
  });
}

int rebuild_for_ever(Communicator& comm) {
  return repeat([&](int i) -> Result<void> {
    const auto epoch = static_cast<std::uint64_t>(i) + 1;
    auto next = comm.rebuild({comm.rank(), comm.size(), epoch, comm.job()});
    return next ? next->barrier() : Result<void>(std::unexpected(std::move(next.error())));
  });
}

// One step, then the same gradients with another communicator.
int rebind_for_ever(Communicator& comm) {
  return repeat([&](int) -> Result<void> {
    std::optional<Communicator> next;  // outlives the objects bound to it
    GradientSync sync(comm);
    MUSTER_RETURN_IF_ERROR(sync.add("p", DType::f32, 10000));
    if (auto made = sync.finalize(); !made) {
      return made;
    }
    auto part = comm.split(0, comm.rank());
    MUSTER_RETURN_IF_ERROR(part);
    next = std::move(*part);
    if (auto bound = sync.rebind(*next); !bound) {
      return bound;
    }
    return gradient_step(sync, 1);
  });
}

// The operation in which the test kills a rank.
int for_ever(Communicator& comm, std::string_view what) {
  if (const auto met = comm.barrier(); !met) {
    return fail(met.error());
  }
  if (what == "gradients") {
    return step_for_ever(comm);
  }
  if (what == "splits") {
    return split_for_ever(comm);
  }
  if (what == "rebuild") {
    return rebuild_for_ever(comm);
  }
  if (what == "rebind") {
    return rebind_for_ever(comm);
  }
  if (what == "alloc") {
    return alloc_for_ever(comm);
  }
  const std::vector<std::string_view> others{
      "reduce", "broadcast", "gathers", "all-to-all", "transfers"};
  if (std::ranges::find(others, what) != others.end()) {
    return operation_for_ever(comm, what);
  }
  return reduce_for_ever(comm, what == "small" ? 1000 : 3000000, what == "direct", what == "async");
}

// Rank 1 stops in the middle; the sums continue when it continues.
int pause(Communicator& comm) {
  for (int i = 1; i <= 40; ++i) {
    if (i == 20 && comm.rank() == 1) {
      ::raise(SIGSTOP);
    }
    Floats data(i % 2 == 0 ? 100 : 1000000, static_cast<float>(i));
    const auto done = comm.all_reduce(buffer(data), buffer(data), Op::sum);
    if (!done) {
      return fail(done.error());
    }
    if (data.front() != static_cast<float>(i * comm.size()) || data.back() != data.front()) {
      std::printf("wrong sum %g of %d\n", static_cast<double>(data.back()), i);
      return 1;
    }
  }
  std::printf("all sums of %d by %s\n", comm.size(), std::string(name_of(comm.backend())).c_str());
  return 0;
}

// Prints that it is ready. After a line says that the store is gone, prints what still works and
// what does not.
int without_store(Communicator& comm) {
  if (const auto met = comm.barrier(); !met) {
    return fail(met.error());
  }
  std::printf("ready\n");
  std::fflush(stdout);
  static_cast<void>(std::getchar());
  Floats data(10, 1);
  const auto sum = comm.all_reduce(buffer(data), buffer(data), Op::sum);
  const auto part = comm.split(0, 0);
  const auto again = comm.rebuild({comm.rank(), comm.size(), comm.epoch() + 1, comm.job()});
  const auto word = [](const auto& result) {
    return std::string(result ? "ok" : name_of(result.error().code));
  };
  std::printf("sum %s, split %s, rebuild %s, sum %s: %s\n",
              word(sum).c_str(),
              word(part).c_str(),
              word(again).c_str(),
              word(comm.barrier()).c_str(),
              part ? "" : part.error().text.c_str());
  return 0;
}

int run(Communicator& comm, std::string_view what, const std::string& word) {
  const std::size_t number = std::strtoul(word.c_str(), nullptr, 10);
  if (what == "for-ever") {
    return for_ever(comm, word);
  }
  if (what == "pause") {
    return pause(comm);
  }
  if (what == "without-store") {
    return without_store(comm);
  }
  if (what == "sums") {
    return sums(comm);
  }
  if (what == "die") {
    return die(comm, 1000, number);
  }
  if (what == "die-large") {
    return die(comm, 5000000, number);
  }
  if (what == "die-inside") {
    return die_inside(comm);
  }
  if (what == "begin") {
    const auto met = comm.barrier();
    print_moment("begins");
    return met ? loop(comm, 1000, -1, [] {}) : fail(met.error());
  }
  if (what == "stop") {
    return loop(comm, 1000, 1, [] { ::raise(SIGSTOP); });
  }
  if (what == "exit") {
    return loop(comm, 1000, 1, [] { std::exit(3); });
  }
  if (what == "forks") {
    return forks(comm);
  }
  std::fprintf(stderr, "collective_puppet: what is '%s'?\n", std::string(what).c_str());
  return 2;
}

}  // namespace

int main(int count, char** argv) {
  auto comm = Communicator::from_env();
  if (!comm) {
    return fail(comm.error());
  }
  const std::string what = count > 1 ? argv[1] : "sums";
  // Static, so that it is still open in exit().
  static Communicator kept = std::move(*comm);
  return run(kept, what, count > 2 ? argv[2] : "");
}
