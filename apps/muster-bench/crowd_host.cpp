// SPDX-License-Identifier: Apache-2.0
#include "apps/muster-bench/crowd_host.hpp"

#include "rendezvous/node/rendezvous_node.hpp"

#include <asio/io_context.hpp>
#include <asio/posix/stream_descriptor.hpp>
#include <fmt/format.h>

#include <fstream>
#include <utility>

#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

namespace muster::bench {
namespace {

// An agent without workers. It confirms each worker request immediately.
class NoWorkers : public NodeOwner {
 public:
  void run_round(const RunRound&) override {}

  void stop_workers(const StopWorkers&) override { node->tell(WorkersGone{}); }

  void run_mend(const RunMend&) override {}

  void refuse_mend(const RefuseMend&) override {}

  void fence_workers(const std::string&) override { node->tell(WorkersGone{}); }

  void lease_until(TimePoint) override {}

  void open_store(RoundId round) override {
    node->tell(StoreOpened{.round = round, .address = "127.0.0.1", .port = 1});
  }

  void find_owner(const FindOwner&) override {}

  void vouch_known(const VouchKnown&) override {}

  void inquire(const InquiryStep&) override {}

  void hear_waits(const HearWaits&) override {}

  void hear_suspect(const SuspectNode&) override {}

  void show_roll_call(const ShowRollCall&) override {}

  void log(LogLevel, const std::string&) override {}

  void ended(const NodeEnd&) override { _exit(1); }

  std::unique_ptr<RendezvousNode> node;
};

void pin_to_first() {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(0, &set);
  static_cast<void>(::sched_setaffinity(0, sizeof(set), &set));
}

RendezvousSettings settings_of(const JobTerms& terms, std::uint16_t port, Duration lease) {
  RendezvousSettings out;
  out.core.terms = terms;
  out.core.endpoints = {{"127.0.0.1", port}};
  out.core.lease = lease;
  out.self = {.id = 1, .name = "node0", .address = {}, .role = "default", .node_rank = 0};
  return out;
}

// Runs in the child until the parent closes `alive`.
[[noreturn]] void serve(const RendezvousSettings& settings, UniqueFd alive) {
  pin_to_first();
  asio::io_context loop(1);
  NoWorkers workers;
  auto sockets = make_node_sockets();
  if (!sockets) {
    _exit(1);
  }
  auto node = RendezvousNode::start(loop, settings, std::move(*sockets), workers);
  if (!node) {
    _exit(1);
  }
  workers.node = std::move(*node);
  asio::posix::stream_descriptor end(loop, alive.release());
  end.async_wait(asio::posix::stream_descriptor::wait_read,
                 [](const asio::error_code&) { _exit(0); });
  loop.run();
  _exit(1);
}

}  // namespace

Result<std::unique_ptr<CrowdHost>> CrowdHost::start(std::size_t nodes,
                                                    Duration lease,
                                                    std::shared_ptr<const JobTrust> trust) {
  std::unique_ptr<CrowdHost> host(new CrowdHost);
  auto listener = listen_on("127.0.0.1", 0);
  auto pipe = make_pipe();
  if (!listener || !pipe) {
    return std::unexpected(!listener ? listener.error() : pipe.error());
  }
  host->port_ = port_of(listener->get());
  listener->reset();
  host->terms_ = {.job_id = std::string(kJob),
                  .backend = "c10d",
                  .nodes_min = static_cast<std::int32_t>(nodes),
                  .nodes_max = static_cast<std::int32_t>(nodes) + 1,
                  .max_restarts = 0,
                  .version = "bench"};
  host->trust_ = std::move(trust);
  host->pid_ = ::fork();
  if (host->pid_ < 0) {
    return std::unexpected(system_error("cannot start the coordinator", errno));
  }
  if (host->pid_ == 0) {
    pipe->write.reset();
    RendezvousSettings settings = settings_of(host->terms_, host->port_, lease);
    settings.trust = host->trust_;
    serve(settings, std::move(pipe->read));
  }
  host->alive_ = std::move(pipe->write);
  return host;
}

CrowdHost::~CrowdHost() {
  alive_.reset();
  if (pid_ > 0) {
    ::waitpid(pid_, nullptr, 0);
  }
}

// The result has nanosecond resolution. The ticks in /proc/PID/stat miss processes that run for
// only microseconds at a time.
Duration CrowdHost::cpu_time() const {
  std::ifstream file(fmt::format("/proc/{}/schedstat", pid_));
  Duration::rep nanoseconds = 0;
  file >> nanoseconds;
  return Duration(nanoseconds);
}

}  // namespace muster::bench
