// SPDX-License-Identifier: Apache-2.0
// HostsRequest: what --hosts or --hostfile asks for, resolved: the machines, how they are reached,
// and what every agent is started with. Made by resolve(), carried out by remote/. Value type.
#pragma once

#include "base/time.hpp"
#include "platform/job_hosts.hpp"

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace muster {

struct HostsRequest {
  std::vector<JobHost> hosts;    // slots: workers there; none: as `options` say
  std::vector<std::string> rsh;  // the remote shell and its options; the host is added
  std::string muster;            // path of this program on the others
  int fanout = 0;                // machines that one machine starts
  Duration reach_timeout{};      // for further attempts to reach a machine

  int nodes_min = 1;                 // of the job's machines, which are all of `hosts`
  std::vector<std::string> options;  // "--max-restarts=3": the same for every agent
  std::vector<std::string> program;  // and its arguments, verbatim
  std::map<std::string, std::string> environment;  // that travels
  std::vector<std::string> settings;  // variables that hold settings here: options say the same

  std::string rdzv_id;
  std::string rdzv_conf;      // as typed
  std::string rdzv_endpoint;  // as typed; empty: on the first machine, at a port that is free there
  std::string port_range;     // as typed; empty: any
  bool sends_token = false;   // the job's secret goes to each machine through the remote shell:
  std::string token_file;     // of this file here; empty: a fresh one
  bool label = false;         // lines are to name the machine
  Duration grace{};           // that workers have to end
};

}  // namespace muster
