// SPDX-License-Identifier: Apache-2.0
#include "nccl/fakes/cuda/world.hpp"

#include "nccl/fakes/violation.hpp"

#include <algorithm>
#include <thread>
#include <utility>

#include <unistd.h>

namespace muster::fake {

World& World::get() {
  static auto* world = new World;
  if (world->pid != 0 && world->pid != getpid()) {
    violation("CUDA is used in a process that was forked after cuInit");
  }
  return *world;
}

Stream& World::stream_of(CUstream handle, int device) {
  auto* stream = reinterpret_cast<Stream*>(handle);
  if (stream == nullptr || handle == CU_STREAM_LEGACY) {
    Stream*& legacy = legacy_[device];
    if (legacy == nullptr) {
      legacy = make_stream(device);
      legacy->legacy = true;
    }
    return *legacy;
  }
  for (const auto& known : streams_) {
    if (known.get() == stream) {
      require(!stream->closing, "a destroyed stream is used");
      return *stream;
    }
  }
  violation("an address that is no stream is used as one");
}

Stream* World::make_stream(int device) {
  auto& stream = *streams_.emplace_back(std::make_unique<Stream>());
  stream.number = order.add_stream();
  stream.device = device;
  std::thread([this, &stream] { run(stream); }).detach();
  return &stream;
}

void World::close_stream(Stream& stream) {
  stream.closing = true;
  notify();
}

void World::push(Stream& stream, std::function<void()> task) {
  if (!stream.held.empty()) {
    violation("a stream is used while " + stream.held);
  }
  require(!stream.captures,
          "a stream is used while it captures a graph, of which an operation that the host looks "
          "after cannot be a part");
  stream.tasks.push_back(std::move(task));
  ++stream.given;
  notify();
}

void World::await(Lock& lock, Stream& stream) {
  changed_.wait(lock, [&, given = stream.given] { return stream.done >= given; });
}

void World::drain(Lock& lock, Stream& stream) {
  const Clock clock = order.at(stream.number);
  await(lock, stream);
  order.host_knows(clock);
}

void World::await_device(Lock& lock, int device) {
  std::vector<std::pair<Stream*, std::uint64_t>> ends;
  for (const auto& stream : streams_) {
    if (stream->device == device) {
      ends.emplace_back(stream.get(), stream->given);
    }
  }
  ++awaiting;
  changed_.wait(lock, [&] {
    return std::ranges::all_of(ends, [](const auto& end) { return end.first->done >= end.second; });
  });
  --awaiting;
}

void World::check_nothing_is_left(int device) const {
  require(
      std::ranges::none_of(memory, [&](const auto& one) { return one.second.device == device; }),
      "a context is let go by its last holder before memory that is in it");
  require(std::ranges::all_of(streams_,
                              [&](const auto& stream) {
                                return stream->device != device || stream->closing ||
                                       stream->legacy;
                              }),
          "a context is let go by its last holder before a stream that is in it");
  const auto loaded = modules.find(device);
  require(loaded == modules.end() || loaded->second == 0,
          "a context is let go by its last holder before a module that is in it");
}

std::size_t World::bytes_from(std::uintptr_t address) const {
  auto after = memory.upper_bound(address);
  if (after == memory.begin()) {
    return 0;
  }
  --after;
  const auto end = after->first + after->second.bytes;
  return address < end ? end - address : 0;
}

void World::touch(const Stream& stream, Span span, const std::string& what) {
  const auto bytes = span.end - span.begin;
  if (bytes > 0 && bytes_from(span.begin) < bytes) {
    violation(what + " goes beyond its buffer, or uses memory that is not the device's");
  }
  if (const auto sentence = order.touch(stream.number, span, what)) {
    violation(*sentence);
  }
}

void World::run(Stream& stream) {
  Lock held = lock();
  while (true) {
    changed_.wait(held, [&] { return !stream.tasks.empty() || stream.closing; });
    if (stream.tasks.empty()) {
      return;
    }
    const auto task = std::move(stream.tasks.front());
    stream.tasks.pop_front();
    held.unlock();
    task();
    held.lock();
    ++stream.done;
    notify();
  }
}

std::vector<Context*>& context_stack() {
  thread_local std::vector<Context*> stack;
  return stack;
}

int current_device() {
  return context_stack().empty() ? -1 : context_stack().back()->device;
}

int required_device() {
  require(!context_stack().empty(), "the driver is called without a current context");
  return current_device();
}

}  // namespace muster::fake
