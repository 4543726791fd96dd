// SPDX-License-Identifier: Apache-2.0
// HostsRequest: the resolved --hosts or --hostfile: the hosts, how to reach them, and how to start
// the agent on each. Created by resolve(), carried out by remote/. Value type.
#pragma once

#include "base/time.hpp"
#include "platform/job_hosts.hpp"

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace muster {

struct HostsRequest {
  std::vector<JobHost> hosts;    // slots: workers on the host; if unset, `options` applies
  std::vector<std::string> rsh;  // remote shell and its options, without the host
  std::string muster;            // path of this program on the other hosts
  int fanout = 0;                // maximum number of hosts that one host starts
  Duration reach_timeout{};      // how long to retry unreachable hosts

  int nodes_min = 1;                 // minimum number of nodes; the maximum is the size of `hosts`
  std::vector<std::string> options;  // such as "--max-restarts=3"; the same for every agent
  std::vector<std::string> program;  // the program and its arguments, verbatim
  std::map<std::string, std::string> environment;  // variables to forward
  std::vector<std::string> settings;               // variables whose values are in `options`

  std::string rdzv_id;
  std::string rdzv_conf;      // as typed
  std::string rdzv_endpoint;  // as typed; if empty, a free port on the first host
  std::string port_range;     // as typed; if empty, any port
  bool sends_token = false;   // send the job's secret to each host through the remote shell
  std::string token_file;     // local file with that secret; if empty, generate a secret
  bool label = false;         // prefix output lines with the host's name
  Duration grace{};           // time between SIGTERM and SIGKILL for the workers
};

}  // namespace muster
