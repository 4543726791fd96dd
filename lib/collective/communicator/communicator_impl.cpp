// SPDX-License-Identifier: Apache-2.0
#include "collective/communicator/communicator_impl.hpp"

#include "base/clock.hpp"
#include "collective/bootstrap/death_notice.hpp"
#include "collective/bootstrap/environment.hpp"
#include "collective/bootstrap/start_watch.hpp"
#include "collective/communicator/transports.hpp"
#include "collective/nccl/nccl_transport.hpp"
#include "collective/recorder/hand_over.hpp"
#include "collective/shm/shm.hpp"
#include "rendezvous/client/store.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace muster::collective {
namespace {

// Releases the object without running its destructor.
template <class Part>
void leave_alone(std::unique_ptr<Part>& part) {
  [[maybe_unused]] const Part* const parents = part.release();
}

// Use the rank and the text that the other ranks see, but keep the local error code.
Error as_ours(Error error, int rank) {
  if (error.code == Errc::system) {
    Error shared = start_failure(error, rank);
    error.rank = shared.rank;
    error.text = std::move(shared.text);
  }
  return error;
}

}  // namespace

Result<Communicator> Communicator::Impl::make(Recipe recipe, const PeerWatch* parent) {
  const Membership& m = recipe.membership;
  if (m.size < 1 || m.rank < 0 || m.rank >= m.size) {
    return failure(
        Errc::invalid_argument,
        fmt::format("rank {} of {}: the rank must be between 0 and size - 1", m.rank, m.size));
  }
  if (m.size > 1 && recipe.store == nullptr) {
    return failure(Errc::invalid_argument,
                   "no store was passed; the ranks need one to find each other");
  }
  // Check the port range even if no port is opened, so that a mistake is reported before the job
  // grows to a second host.
  MUSTER_RETURN_IF_ERROR(ports_named(recipe.options.port_range));
  request_death_notice();
  auto impl = std::make_unique<Impl>();
  impl->recipe = std::move(recipe);
  impl->pointers_.use_driver(impl->recipe.environ.get("MUSTER_CUDA_LIBRARY").value_or(""));
  if (auto met = impl->meet(parent); !met) {
    Error error = std::move(met.error());
    error.epoch = impl->recipe.membership.epoch;
    return std::unexpected(std::move(error));
  }
  return Communicator(std::move(impl));
}

Communicator::Impl::~Impl() {
  if (generation != fork_generation()) {
    // The threads and shared memory slots belong to the parent process.
    leave_alone(collectives);
    leave_alone(transfers);
    leave_alone(device);
    leave_alone(host);
    leave_alone(segment);
  }
}

Result<Communicator> Communicator::Impl::make_child(const Membership& membership,
                                                    std::string name,
                                                    const PeerWatch* parent) const {
  Recipe child = recipe;
  child.membership = membership;
  child.options.name = std::move(name);
  return make(std::move(child), parent);
}

Result<void> Communicator::Impl::meet(const PeerWatch* parent) {
  const Membership& m = recipe.membership;
  const CommOptions& o = recipe.options;
  if (auto numbered = choose_prefix(); !numbered) {
    return numbered;
  }
  BootstrapContext context{.store = recipe.store.get(),
                           .prefix = prefix,
                           .rank = m.rank,
                           .size = m.size,
                           .deadline = steady_now() + o.init_timeout};
  const HostCard card = HostCard::own(o.host.empty() ? host_word() : o.host);
  if (m.size == 1) {
    hosts = group_by_host({card.host});
    return join_all(context);
  }
  StartWatch watch(context, card);
  context.watch = &watch;
  if (parent != nullptr) {
    watch.follow(*parent);
  }
  const auto cards = exchange_host_cards(context, card);
  auto met = cards ? Result<void>() : std::unexpected(cards.error());
  if (cards) {
    hosts = group_by_host(*cards);
    met = join_all(context);
  }
  if (!met) {
    watch.tell(met.error());
    return std::unexpected(as_ours(std::move(met.error()), m.rank));
  }
  return met;
}

Result<void> Communicator::Impl::join_all(const BootstrapContext& context) {
  const auto chosen = choose_backend(recipe.options.backend, hosts);
  MUSTER_RETURN_IF_ERROR(chosen);
  backend = *chosen;
  if (auto joined = join_host(context); !joined) {
    return joined;
  }
  if (auto opened = open_recorder(); !opened) {
    return opened;
  }
  if (auto made = make_transport(context); !made) {
    return made;
  }
  collectives = std::make_unique<CollectiveQueue>(*host, *recorder);
  transfers = std::make_unique<TransferQueue>(*host, *recorder);
  return {};
}

// A second communicator with the same name, job and epoch must not read the store keys of the first
// communicator. So every rank numbers the communicators that it creates.
Result<void> Communicator::Impl::choose_prefix() {
  const Membership& m = recipe.membership;
  prefix = fmt::format("coll/{}/{}/{}/", m.job, m.epoch, recipe.options.name);
  if (m.size > 1) {
    const auto number = recipe.store->add(fmt::format("{}made/{}", prefix, m.rank), 1);
    if (!number) {
      return std::unexpected(
          wrap(Errc::store, "cannot register the communicator in the store", number.error()));
    }
    prefix += fmt::format("{}/", *number);
  }
  return {};
}

Result<void> Communicator::Impl::join_host(const BootstrapContext& context) {
  SegmentPlan plan;
  plan.ranks = hosts.beside(context.rank);
  plan.self =
      static_cast<std::size_t>(std::ranges::find(plan.ranks, context.rank) - plan.ranks.begin());
  plan.epoch = recipe.membership.epoch;
  plan.layout = shm_layout(plan.ranks.size());
  plan.arena_bytes = recipe.options.arena_bytes / 4096 * 4096;
  plan.name = recipe.options.name;
  plan.flight_bytes = recipe.options.recorder_folder.empty()
                          ? FlightRecorder::bytes_for(recipe.options.recorder_entries)
                          : 0;
  auto joined = Segment::join(context, std::move(plan));
  MUSTER_RETURN_IF_ERROR(joined);
  segment = std::move(*joined);
  if (context.watch != nullptr) {
    context.watch->rely_on(*segment);
  }
  peers = segment.get();
  return {};
}

// Opens the flight recorder in memory that all ranks on the host share. The launcher also has a
// descriptor for this memory, so it can read the records after the rank is killed.
Result<void> Communicator::Impl::open_recorder() {
  const Membership& m = recipe.membership;
  const CommOptions& o = recipe.options;
  auto opened = FlightRecorder::open({.folder = o.recorder_folder,
                                      .name = o.name,
                                      .rank = m.rank,
                                      .size = m.size,
                                      .epoch = m.epoch,
                                      .entries = o.recorder_entries,
                                      .shared = segment->flights(),
                                      .self = segment->self(),
                                      .ranks = segment->size()});
  MUSTER_RETURN_IF_ERROR(opened);
  recorder = std::move(*opened);
  if (segment->self() == 0 && segment->flights().size() > 0) {
    hand_over_flight_recorder(segment->flights().fd());
  }
  return {};
}

Result<void> Communicator::Impl::make_transport(const BootstrapContext& context) {
  const TransportOpener open = transport_opener(name_of(backend));
  if (open == nullptr) {
    return failure(Errc::unsupported,
                   fmt::format("backend {} does not support host memory", name_of(backend)));
  }
  auto opened = open({context, *segment, hosts, recipe.options, recipe.environ});
  MUSTER_RETURN_IF_ERROR(opened);
  host = std::move(opened->transport);
  peers = opened->peers;
  return {};
}

std::optional<Error> Communicator::Impl::terminal_error() const {
  auto error = peers->failure();
  if (error) {
    error->epoch = recipe.membership.epoch;
  }
  return error;
}

std::string Communicator::Impl::positions() const {
  const auto logs = read_flight_recorders(recorder->path());
  std::string text = logs ? describe_flight_recorders(*logs) : "";
  while (text.ends_with('\n')) {
    text.pop_back();
  }
  for (auto at = text.find('\n'); at != std::string::npos; at = text.find('\n', at)) {
    text.replace(at, 1, "; ");
  }
  return text;
}

std::optional<Error> Communicator::Impl::disagreement(const Request& mine) const {
  for (std::size_t place = 0; place < segment->size(); ++place) {
    const auto theirs = place == segment->self() ? std::nullopt : recorder->called_by(place, mine);
    if (!theirs) {
      continue;
    }
    const bool same = is_transfer(mine.kind)
                          ? theirs->dtype == mine.dtype && theirs->count == mine.count
                          : theirs->signature() == mine.signature() &&
                                theirs->count == mine.count && theirs->root == mine.root;
    if (!same) {
      const int rank = segment->plan().ranks[place];
      return Error{.code = Errc::mismatch,
                   .rank = rank,
                   .epoch = recipe.membership.epoch,
                   .seq = mine.seq,
                   .text = fmt::format("the ranks disagree: rank {} called {}, rank {} called {}",
                                       recipe.membership.rank,
                                       mine.describe(),
                                       rank,
                                       theirs->describe())};
    }
  }
  return std::nullopt;
}

Result<Transport*> Communicator::Impl::device_transport(int ordinal) {
  if (!device) {
    auto made = make_nccl_transport(
        {.store = recipe.store.get(),
         .prefix = prefix,
         .name = recipe.options.name,
         .rank = recipe.membership.rank,
         .size = recipe.membership.size,
         .epoch = recipe.membership.epoch,
         .device = ordinal,
         .init_timeout = recipe.options.init_timeout,
         .environ = &recipe.environ,
         .positions = [this] { return positions(); },
         .disagreement = [this](const Request& mine) { return disagreement(mine); },
         .progress = recorder.get(),
         .peers = peers});
    MUSTER_RETURN_IF_ERROR(made);
    device = std::move(*made);
  }
  return device.get();
}

Result<std::unique_ptr<DeviceQueue>> Communicator::Impl::make_queue(int ordinal) {
  const auto transport = device_transport(ordinal);
  return transport ? (*transport)->make_queue() : std::unexpected(transport.error());
}

Result<void> Communicator::Impl::run_own(const Call& call) {
  const auto work = submit_own(call);
  return work ? work->wait() : std::unexpected(work.error());
}

// Each rank has two posts in shared memory and alternates between them by operation number. Host
// operations therefore have consecutive numbers, and GPU operations are counted separately.
std::uint64_t& Communicator::Impl::number(const Request& request) {
  return is_transfer(request.kind) ? transfer_numbers_[{request.kind, request.root}]
         : request.device == kHost ? seq
                                   : device_seq;
}

Result<Work> Communicator::Impl::submit(const Call& call, const OpOptions& options) {
  const bool ours = generation == fork_generation();  // a forked child must not call the driver
  const auto device_of = [&](int given, const void* data) {
    return given == kHost && ours ? pointers_.device_of(data) : given;
  };
  const int in = device_of(call.in.device, call.in.data);
  const int out = device_of(call.out.device, call.out.data);
  if (in != call.in.device || out != call.out.device) [[unlikely]] {
    Call placed = call;
    placed.in.device = in;
    placed.out.device = out;
    return submit_own(placed, options);
  }
  if (recipe.options.backend == Backend::nccl && in == kHost && out == kHost &&
      call.kind != Kind::barrier) [[unlikely]] {
    return failure(Errc::unsupported,
                   fmt::format("{}: backend nccl (option or MUSTER_COLLECTIVE_BACKEND) requires "
                               "GPU buffers, but this one is in host memory. Use backend auto "
                               "to support both",
                               name_of(call.kind)));
  }
  return submit_own(call, options);
}

Result<Work> Communicator::Impl::submit_own(const Call& call, const OpOptions& options) {
  auto request = checked(call, recipe.membership.rank, recipe.membership.size);
  MUSTER_RETURN_IF_ERROR(request);
  if (generation != fork_generation()) {
    return failure(Errc::invalid_state,
                   "this process was forked from a rank; only the rank itself may use the "
                   "communicator");
  }
  // No atomic read-modify-write here, because it would add 2% to a small all-reduce. If two threads
  // enter within a few nanoseconds of each other, both pass this check; the first to leave then
  // sees the other's mark.
  const pthread_t self = ::pthread_self();
  if (caller_.load(std::memory_order_relaxed) != kNoThread) [[unlikely]] {
    return std::unexpected(refuse_second_thread(*request));
  }
  caller_.store(self, std::memory_order_relaxed);
  request->scale = call.op == Op::premul_sum ? options.scale : 1;
  auto work = submit_checked(*request, options);
  if (caller_.load(std::memory_order_relaxed) != self) [[unlikely]] {
    return std::unexpected(refuse_second_thread(*request));
  }
  caller_.store(kNoThread, std::memory_order_relaxed);
  return work;
}

Result<Work> Communicator::Impl::submit_checked(Request& request, const OpOptions& options) {
  if (auto dead = terminal_error()) [[unlikely]] {
    return std::unexpected(std::move(*dead));
  }
  request.stream = options.stream;
  const TimePoint now = steady_now();
  const Duration timeout =
      options.timeout > Duration::zero() ? options.timeout : recipe.options.timeout;
  request.deadline = now + timeout;
  request.seq = ++number(request);
  if (request.device != kHost) {
    return submit_device(request);
  }
  auto work = submit_host(request, options, now);
  if (!work) {
    work.error().epoch = recipe.membership.epoch;
    work.error().seq = work.error().seq == 0 ? request.seq : work.error().seq;
  }
  return work;
}

Error Communicator::Impl::refuse_second_thread(const Request& request) {
  if (!terminal_error()) {
    abort(
        fmt::format("two threads called the communicator '{}' at the same time: {} was called "
                    "while another operation was running. Only one thread at a time may use a "
                    "communicator: use a lock, or a separate communicator (split()) for each "
                    "thread",
                    recipe.options.name,
                    name_of(request.kind)));
  }
  return terminal_error().value_or(Error{.code = Errc::aborted, .text = "aborted"});
}

void Communicator::Impl::abort(const std::string& reason) {
  const int rank = recipe.membership.rank;
  const Error why{.code = Errc::aborted,
                  .rank = rank,
                  .epoch = recipe.membership.epoch,
                  .text = fmt::format("rank {} aborted: {}", rank, reason)};
  host->abort(why);
  if (device) {
    device->abort(why);
  }
}

Result<Work> Communicator::Impl::submit_device(const Request& request) {
  const auto transport = device_transport(request.device);
  const auto refused =
      transport ? (*transport)->refuse(request) : std::unexpected(transport.error());
  if (!refused) {
    --number(request);  // no other rank and no record has used this number
    return std::unexpected(refused.error());
  }
  recorder->queued(request, steady_now());
  auto pending = (*transport)->start(request);
  return pending ? Result<Work>(Work(request.seq, std::move(*pending)))
                 : std::unexpected(std::move(pending.error()));
}

// Takes the request by reference, so that an operation that runs synchronously does not copy it.
Result<Work> Communicator::Impl::submit_host(const Request& request,
                                             const OpOptions& options,
                                             TimePoint now) {
  const std::uint64_t ticket = recorder->queued(request, now);
  if (is_transfer(request.kind)) {
    return submit_transfer({request, request.deadline - now, ticket, nullptr}, options.async);
  }
  if (options.async && !others_come(request, options, now)) {
    auto pending = std::make_shared<HostPending>();
    collectives->add({request, request.deadline - now, ticket, pending, CallerMoment{.at = now}});
    return Work(request.seq, std::move(pending));
  }
  collectives->drain();
  recorder->started_at(ticket, now);
  auto done = host->start(request);
  MUSTER_RETURN_IF_ERROR(done);
  // Avoid reading the clock, which takes a seventh of the time of a small all-reduce.
  const TimePoint over = host->prompt() ? now : steady_now();
  recorder->completed_at(ticket, over);
  recorder->waited(over - now);
  return Work(request.seq, nullptr);
}

// Whether to run an asynchronous operation within the call.
bool Communicator::Impl::others_come(const Request& request,
                                     const OpOptions& options,
                                     TimePoint now) const {
  return options.max_wait > Duration::zero() && collectives->empty() &&
         host->others_come(request, std::min(now + options.max_wait, request.deadline));
}

Result<Work> Communicator::Impl::submit_transfer(const AsyncJob& job, bool async) const {
  if (async || !transfers->empty()) {
    AsyncJob queued = job;
    queued.pending = std::make_shared<HostPending>();
    transfers->add(queued);
    Work work(job.request.seq, queued.pending);
    if (!async) {
      MUSTER_RETURN_IF_ERROR(work.wait());
    }
    return work;
  }
  auto transfer = host->begin(job.request);
  MUSTER_RETURN_IF_ERROR(transfer);
  const TimePoint begun = steady_now();
  recorder->started_at(job.ticket, begun);
  MUSTER_RETURN_IF_ERROR(finish(*host, **transfer, job.request));
  const TimePoint over = steady_now();
  recorder->completed_at(job.ticket, over);
  recorder->waited(over - begun);
  return Work(job.request.seq, nullptr);
}

}  // namespace muster::collective
