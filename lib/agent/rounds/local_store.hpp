// SPDX-License-Identifier: Apache-2.0
// LocalStore: provides the workers' store and its address, the workers' ports and the processes to
// start in the rounds of a single-node job. Owned by the agent; lives on its loop. Resource.
#pragma once

#include "agent/agent_setup.hpp"
#include "agent/events/event_stream.hpp"
#include "agent/rounds/local_rounds.hpp"
#include "agent/store/reserved_ports.hpp"
#include "agent/workers/run_folder.hpp"
#include "io/admission.hpp"
#include "io/name_lookup.hpp"
#include "rendezvous/server/server.hpp"

#include <asio/io_context.hpp>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace muster {

class LocalStore final : public LocalRoundsSite {
 public:
  LocalStore(asio::io_context& loop,
             const AgentSetup& setup,
             RunFolder& run_folder,
             EventStream& events)
      : loop_(loop),
        setup_(setup),
        run_folder_(run_folder),
        events_(events),
        ports_(setup.config) {}

  // Decides who may use the store; outlives this object.
  void set_admission(Admission* admission) { admission_ = admission; }

  // Resolves MASTER_ADDR, then calls `ready`. Signals are handled in the meantime. If the name
  // cannot be resolved, the first round fails.
  void look_up(std::function<void()> ready);

  Result<std::vector<ProcessSpec>> open_round(int attempt) override;

  void close_round() override { store_.reset(); }

  // The store, the ports and the ranks stay the same.
  Result<MendToRun> open_mend(const std::vector<int>& local_ranks) override;

  void restarting(const event::RestartDecided& restart) override { events_.tell(restart); }

 private:
  [[nodiscard]] Result<std::uint16_t> open_port();
  [[nodiscard]] Result<Assignment> assignment(int attempt);

  asio::io_context& loop_;
  const AgentSetup& setup_;
  RunFolder& run_folder_;
  EventStream& events_;
  std::optional<NameLookup> lookup_;
  Result<std::vector<std::string>> addresses_;
  Admission* admission_ = nullptr;
  std::unique_ptr<StoreServer> store_;
  Assignment current_;       // of the round, with its last epoch
  std::uint64_t mends_ = 0;  // in all rounds, because epochs only grow
  ReservedPorts ports_;
};

}  // namespace muster
