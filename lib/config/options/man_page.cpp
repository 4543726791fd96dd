// SPDX-License-Identifier: Apache-2.0
// Generates muster(1) in roff from the option table.
#include "base/text.hpp"
#include "config/options/help.hpp"
#include "config/options/rdzv_conf.hpp"
#include "config/options/settings.hpp"

#include <fmt/core.h>

namespace muster {
namespace {

constexpr std::string_view kBegin = R"(.TH MUSTER 1
.SH NAME
muster \- launch the workers of a distributed job, like torchrun
.SH SYNOPSIS
.B muster
[\fIOPTION\fR]... \fIPROGRAM\fR [\fIARGUMENT\fR]...
.SH DESCRIPTION
muster starts one copy of PROGRAM for each worker on this node. If you run the same command on
several nodes, they form one larger job. muster sets the environment that PyTorch's
init_process_group("env://") reads, serves the workers' store, and prints the workers' output or
writes it to files. When a worker fails, muster stops or restarts all workers and reports which
worker failed first, and why. When muster exits, no process of the job remains.
.PP
If PROGRAM ends in .py, it is run as "python3 \-u PROGRAM". The interpreter is $PYTHON_EXEC, else
python3 from the active virtual environment, else python3 in PATH. Executable files are run
directly. When invoked as torchrun, every PROGRAM is a Python script unless \-\-no\-python is set.
When invoked as torch.distributed.launch, muster also inserts \-\-local_rank=N before the program's
arguments. In PROGRAM and its arguments, muster replaces ${local_rank}, ${rank}, ${node_rank} and
${world_size} with the worker's values, ${leader_addr} with the address of the node with rank 0, and
${port0} ..., ${leader_port0} ... with reserved ports. Any other $ is left unchanged. When invoked
as torchrun or torch.distributed.launch, only ${local_rank}, $local_rank and reserved ports are
replaced, and $$ becomes $.
.SH EXAMPLES
.nf
muster \-\-nproc\-per\-node=4 train.py \-\-lr=0.1
muster \-\-nproc\-per\-node=auto \-m my_package.train
muster \-\-nproc\-per\-node=2 \-\-tee=3 \-\-log\-dir=logs ./solver input.dat
muster \-\-explain=plan \-\-nproc\-per\-node=2 ./solver
.fi
.SH OPTIONS
Options must precede PROGRAM; all arguments after it belong to the program. Option names may use -
or _ and may be shortened to a unique prefix. For each setting the first of these sources wins:
command line, MUSTER_ variable, PET_ variable (torchrun's), \-\-config file, default.
)";

constexpr std::string_view kManyMachines = R"(.SH MULTIPLE NODES
Run the same command on each node, with the number of nodes and a rendezvous address:
.PP
.nf
muster \-\-nnodes=2:4 \-\-rdzv\-backend=c10d \-\-rdzv\-endpoint=head:29400 train.py
.fi
.PP
The endpoint is an address of one of the nodes; no separate server is needed. Further addresses,
separated by commas, are fallbacks. Ranks follow the natural order of host names (node7 before
node66), \-\-rank\-order, or \-\-node\-rank on every node. Without \-\-rdzv\-backend=c10d, a job
has exactly \-\-nnodes nodes, each node needs a \-\-node\-rank, and the nodes and workers connect to
\-\-master\-addr:\-\-master\-port.
.SS The workers' store
\-\-store\-via=direct: workers connect to the launcher on the node with rank 0. That launcher checks
with the launcher on the client's node that the client belongs to this job, and rejects all other
clients. proxy: MASTER_ADDR is 127.0.0.1 and the launchers forward the traffic; this also works
through network address translation. Programs that listen on other ports of MASTER_ADDR must then
use ${leader_addr}. open: any client that can reach the port is accepted. The setting on the node
with rank 0 applies to the whole job.
.SS Launching over ssh
.nf
muster \-\-hosts a:4,b:2 train.py
muster \-\-hostfile machines \-x WANDB_API_KEY \-\-nproc\-per\-node=auto train.py
.fi
.PP
These commands start the job on the given hosts over ssh and print its output here. The working
directory and the path to muster are the same on every host. The number after a host is its number
of workers. Hosts may be ranges (rack[01\-16]:8), include a user (me@b), or be IPv6 addresses
([::1]:4). A host file has one host per line, such as "a slots=4" or "a:4". Names may be repeated,
as in a PBS node file. A line may also set devices=0,1, user=NAME and port=N. \-\-hosts
\(aqa:2@0,1;b:2@2,3\(aq selects GPUs on each host; \-\-devices selects the same GPUs on all hosts.
On the local host, muster starts the workers without ssh. \-\-include=\(aqa@b:0,2\(aq keeps host a
and GPUs 0 and 2 on b; \-\-exclude=\(aqb:0\(aq keeps everything except GPU 0 on b, like
DeepSpeed\(aqs launcher. Each remaining GPU gets one worker. No worker starts before all hosts have
responded. For each unreachable host muster prints one line with the last message of the remote
shell, and exits with status 69. Transient failures, such as a host that is still booting or a
refused connection, are retried for \-\-hosts\-timeout seconds (30). If a host is lost later, the
job fails with the same status unless \-\-nnodes=MIN:MAX allows fewer nodes. ssh must be able to log
in without a prompt. \-\-rsh=COMMAND selects another remote shell, or ssh with other options. It
replaces the default command, ssh \-T \-x with BatchMode, ConnectTimeout and ServerAliveInterval.
muster also passes ControlMaster=no to ssh, unless COMMAND sets ControlMaster. Signals are forwarded
to all hosts. When muster exits or a connection breaks, the remote processes are killed.
.PP
All settings are forwarded. So are the variables PATH, LD_LIBRARY_PATH, VIRTUAL_ENV, CONDA_PREFIX,
PYTHON_EXEC and those whose names begin with MUSTER_, PET_, NCCL_, GLOO_, UCX_, FI_, HF_, OMP_,
PYTHON, PYTORCH_ or TORCH. \-x NAME or \-x NAME=VALUE adds a variable; \-x \(aqNAME*\(aq adds all
variables that match. Variables are sent over the connection, never on a command line. Standard
input is not forwarded. With \-\-label each line begins with [host:rank]. With more than
\-\-rsh\-fanout (32) hosts, the first hosts start the others, which requires ssh access between
hosts. The nodes connect to a free port on the first host, or to \-\-rdzv\-endpoint.
.SS Keys of \-\-rdzv\-conf
Times are in seconds; fractions are allowed. Unknown keys are ignored, with a warning if one
resembles a known key.
)";

constexpr std::string_view kDevices = R"(.SH GPUS AND CPUS
\-\-devices=2,4,7 assigns these GPUs to the workers; with \-\-nproc\-per\-node=gpu or auto it starts
one worker per GPU. Numbers index CUDA_VISIBLE_DEVICES (or HIP_VISIBLE_DEVICES) if set, else the
GPUs of this node. GPU\- and MIG\- names are used unchanged. \-\-virtual\-local\-rank shows each
worker only its own GPU, with LOCAL_RANK=0. Set this option if the workers use several MIG slices,
because a process can use only one.
.PP
\-\-numa\-binding selects each worker's CPUs based on the NUMA node of its GPU, which is the GPU
whose index is the worker's local rank. Without GPUs, or with fewer GPUs than workers, the workers
are spread across the NUMA nodes. The values are: node: all CPUs of the NUMA node. socket: all CPUs
of the NUMA node's socket. exclusive: an equal share of the NUMA node's physical cores.
core\-complex: the CPUs that share one last\-level cache. auto: same as node if the host has several
NUMA nodes and the GPUs' locations are known. Memory is allocated from the same NUMA nodes while
they have free memory. A binding never exceeds muster's own CPU affinity and does not need numactl.
\-\-explain shows the masks.
)";

constexpr std::string_view kPorts = R"(.SH PORTS
\-\-ports=N reserves N TCP ports on each node for its workers. \-\-leader\-ports=N reserves N ports
on the node with rank 0 for all workers. Each option reserves at most 256 ports, from
\-\-port\-range if it is set. For example:
.PP
.nf
muster \-\-ports=1 vllm serve model \-\-port \(aq${port0}\(aq
.fi
.PP
Workers find them in MUSTER_PORTS and MUSTER_LEADER_PORTS, separated by commas. They do not change
when workers restart. Leader ports change when rank 0 moves to another node. muster keeps each port
bound but not listening until it exits, so the kernel assigns it to no other program. A server that
sets SO_REUSEADDR can listen on it, on any IPv4 or IPv6 address; without SO_REUSEADDR, bind() fails
with "Address already in use". Any other program that binds exactly this port with SO_REUSEADDR can
also take it. UDP ports are not reserved.
.PP
With TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1 the worker with rank 0 serves the workers' store, as under
torchrun, and muster reserves MASTER_PORT for it in the same way. The variable has no effect with
\-\-rdzv\-backend=static.
)";

constexpr std::string_view kShown = R"(.SH MONITORING
The owner of a job, and root, can inspect and control it with musterctl on the same host. No option
is needed for this. The commands are status, top, events, timeline, stacks, flights, stop and drain.
\-\-http=PORT also serves the job's status to browsers and monitoring systems on 127.0.0.1. To make
it reachable from other hosts, use \-\-http=0.0.0.0:PORT or another address. The page and /v1
contain output of failed workers, so they require a key. muster prints the URL with the key on
standard error, and musterctl url prints it again. A browser keeps the key as a cookie; programs
send it as "Authorization: Bearer KEY". \-\-http\-key=FILE reads the key from a file that only you
can read; \-\-http\-key=none disables it. Arguments and environment variables of the job are not
shown. Only GET and HEAD are supported, so clients cannot change anything. PORT 0 selects a free
port. If the port is taken, muster prints a warning and the job continues. Each node reports all
details of its own workers. For other nodes it reports only the information that nodes exchange when
a round starts.
.TP
/
a page with a live diagram of the job
.TP
/healthz, /readyz
/healthz: 200 while the launcher is running. /readyz: 200 while all workers of the round are
running, otherwise 503. Neither needs a key
.TP
/metrics
Prometheus metrics, whose names begin with muster_; no key needed
.TP
/v1/status, /v1/timeline.svg
/v1/status: the current state of the job as a JSON object. /v1/timeline.svg: an image of its rounds,
nodes and workers
.TP
/v1/events
the events of events.jsonl as server\-sent events; with ?follow=0 only past events
)";

constexpr std::string_view kEnd = R"(.SH RESTARTS
After a failure muster restarts all workers, up to \-\-max\-restarts times. It gives up earlier if
the same startup failure repeats in \-\-quick\-failures (3) attempts in a row. In such an attempt,
the first worker that fails exits with the same code as before, within 5 s of the start of the
attempt's last worker. Workers killed by signals do not count, nor do the exit codes that shells use
for signals (129 to 192). Once an attempt has run for longer, later attempts do not count either.
With \-\-quick\-failures=off muster uses all restarts.
.SH SIGNALS
SIGTERM, SIGINT, SIGHUP and SIGQUIT stop the job: muster restarts nothing, notifies the other nodes
that this node is leaving, forwards the signal to the workers, waits for \-\-shutdown\-timeout, then
sends SIGKILL. A second SIGTERM, SIGINT or SIGQUIT skips the remaining wait. SIGUSR1 and SIGUSR2 are
forwarded to each worker's main process and do not stop muster; a worker that does not handle them
dies, which is a failure. Ctrl\-Z stops the workers too. Signals that were ignored when muster
started (nohup) stay ignored.
.PP
Some schedulers signal every process of a job directly, including the workers. With
\-\-signal\-delivery=group muster forwards only signals from the terminal, so that each worker gets
each signal only once. A second SIGTERM then has no effect, because such schedulers send several. A
worker that is killed by a stop signal does not count as failed if muster also receives a stop
signal within 1 s. auto, the default, works like group in a Slurm step for signals from Slurm itself
(scancel, \-\-signal=USR1@30, the time limit, preemption), and forwards signals that other programs
send only to muster (timeout, a shell). In such a step muster waits for the workers until
SLURM_JOB_END_TIME and then for another \-\-shutdown\-timeout. If \-\-shutdown\-timeout is given
explicitly, muster waits only that long and ignores SLURM_JOB_END_TIME. Slurm may kill the workers
earlier. \-\-signal\-delivery=leader forwards every signal; use it with Slurm's
ProctrackType=proctrack/pgid, which does not signal the workers.
.PP
If a worker calls preempted() of muster's worker library, SIGTERM announces a preemption: the
scheduler will stop the job. All ranks then save at the same step and exit. After
\-\-shutdown\-timeout muster kills the remaining ranks. It restarts no rank and exits with code
75. Other announcements are the signal \-\-preempt\-signal, a file that appears at
\-\-preempt\-file, and a SLURM_JOB_END_TIME that is only \-\-shutdown\-timeout away. With
\-\-preempt\-scope=node only the node that receives the notice leaves, and the other nodes
continue with the saved step.
.SH CONFIG FILE
The file is in TOML, with one option per line: \fInproc\-per\-node = 4\fR. Lists may be written as
arrays. Flags are true or false.
.SH ENVIRONMENT
Set for each worker: LOCAL_RANK RANK GROUP_RANK ROLE_RANK ROLE_NAME LOCAL_WORLD_SIZE WORLD_SIZE
GROUP_WORLD_SIZE ROLE_WORLD_SIZE MASTER_ADDR MASTER_PORT TORCHELASTIC_RESTART_COUNT
TORCHELASTIC_MAX_RESTARTS TORCHELASTIC_RUN_ID TORCHELASTIC_USE_AGENT_STORE TORCHELASTIC_ERROR_FILE
TORCHELASTIC_SIGNALS_TO_HANDLE, MUSTER_EPOCH (round number), MUSTER_AGENT (the launcher's socket for
progress and events), MUSTER_PORTS and MUSTER_LEADER_PORTS (reserved ports). Unless already set,
also TORCH_NCCL_ASYNC_ERROR_HANDLING=1 and OMP_NUM_THREADS (usable CPUs of this node divided by the
number of workers; with \-\-numa\-binding the worker's own CPUs; when invoked as torchrun, 1 for
several workers). With \-\-hang\-timeout also MUSTER_TORCH_FLIGHTS, TORCH_NCCL_DEBUG_INFO_PIPE_FILE
and TORCH_NCCL_DEBUG_INFO_TEMP_FILE, which muster uses to query PyTorch's flight recorder. If
TORCH_NCCL_DEBUG_INFO_PIPE_FILE is already set, muster changes neither of the last two.
.PP
Read by muster: PYTHON_EXEC, VIRTUAL_ENV, PATH, LOGLEVEL, TORCH_ELASTIC_SHUTDOWN_TIMEOUT,
TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE, TORCH_DISABLE_SHARE_RDZV_TCP_STORE, CUDA_VISIBLE_DEVICES,
HIP_VISIBLE_DEVICES, ROCR_VISIBLE_DEVICES.
.SH EXIT STATUS
0: all workers succeeded. If a worker failed: the exit code of the first worker that failed, or
128+n if signal n killed it. 2: usage error. 69: a host or service was unreachable or timed out. 70:
internal error in muster. 75: preempted, so the job should run again. 124: stopped by
\-\-on\-hang=stop. 126: the program cannot be executed. 127: the program does not exist. 128+n:
muster was interrupted by signal n.
.SH HANGS
With \-\-hang\-timeout=SECONDS muster polls the workers once a second. Progress is a step
(muster.worker.progress in Python) or an operation of muster's collective library. If a job reports
neither, each line of output that passes through muster (\-\-label, \-\-tee) or goes to its log
files counts as progress. If progress stops for SECONDS, muster reports which rank blocks the
others, and the evidence: process state, system call, stacks (from py\-spy and eu\-stack, if in
PATH), child processes and the position in the collective operations. A rank that writes output or
does I/O counts as slow, not hung, until ten times the limit has passed. With auto, the limit is
three times the longest of the last 64 intervals between steps, and at least 10 s. Before the fifth
step it is 30 minutes.
.PP
\-\-on\-hang=report only reports the hang. restart kills that rank, which counts as a failure and
uses up one of the restarts that \-\-max\-restarts allows. stop also kills it and stops the job with
exit code 124; the report then states that the rank "made no progress and was killed" and names
\-\-on\-hang=stop. hang/N in the log directory contains verdict.json, evidence.json and one file per
rank. In a multi\-node job all nodes are inspected at the same time. All of them print one verdict
with the rank and its node; the leader prints it in full, and its \-\-on\-hang applies to the whole
job.
.SH FAILURE REPORT
After a failure, and with \-\-log\-dir, the run's log directory contains report.json; "musterctl
report DIR \-\-json" prints the newest one. It is one JSON object with the fields outcome,
exit_code, program, node, workers, attempts, max_restarts, verdict (why the job ended), root_cause
(the worker that failed first: rank, local_rank, node, pid, attempt, unix_time, end, exit_code,
signal, out_of_memory, message and traceback of a Python exception, stderr_tail, error_file),
other_failures with other_failures_count, overdue_local_ranks (killed after the grace period) and
not_killed (processes that are still running).
.PP
From the first round on, the same directory contains events.jsonl, which has one line with a JSON
object for each event on this node (v, time, event, node, round and event\-specific fields). The
last event is job_ended. v is 1. Programs must ignore unknown events and fields. All events are
listed in lib/agent/EVENTS.md in the source tree. The file does not contain arguments or environment
variables of the job.
.SH SEE ALSO
.BR muster\-store (1),
.BR musterctl (1)
)";

// Escapes dashes, so that text copied from the page works, and lines that roff would interpret as
// commands.
std::string roff(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '-') {
      out += "\\-";
    } else if (c == '\\') {
      out += "\\e";
    } else {
      out += c;
    }
  }
  const bool command = out.starts_with('.') || out.starts_with('\'');
  return command ? "\\&" + out : out;
}

std::string back_ends(const RdzvKey& key) {
  if (key.in_c10d && key.in_static) {
    return "";
  }
  return key.in_c10d ? " (c10d only)" : " (static only)";
}

std::string describe_keys() {
  std::string out;
  std::vector<std::string> idle;
  for (const RdzvKey& key : rdzv_keys()) {
    if (!key.in_c10d && !key.in_static) {
      idle.push_back(fmt::format("{} ({})", key.name, key.help));
      continue;
    }
    const std::string value =
        key.default_value.empty() ? "" : fmt::format("={}", key.default_value);
    out += fmt::format(".TP\n{}{}\n{}{}.\n", key.name, value, roff(key.help), back_ends(key));
  }
  return out +
         ".PP\nAccepted for torchrun compatibility, without effect: " + roff(join(idle, ", ")) +
         ".\n";
}

std::string describe_option(const Option& row) {
  std::string flag = row.letter != 0 ? fmt::format("\\fB\\-{}\\fR, ", row.letter) : "";
  flag += fmt::format("\\fB{}\\fR", roff(long_flag(row)));
  if (!row.value_name.empty()) {
    const std::string value = fmt::format("\\fI{}\\fR", roff(row.value_name));
    flag += row.bare_value.empty() ? " " + value : "[=" + value + "]";
  }
  std::string out = fmt::format(".TP\n{}\n{}.", flag, roff(row.help));
  if (!row.default_value.empty()) {
    out += fmt::format(" Default: {}.", roff(row.default_value));
  }
  const std::string pet = pet_variable(row);
  if (const std::string own = muster_variable(row); !own.empty()) {
    out += fmt::format(" Variable: {}{}.", own, pet.empty() ? "" : " or " + pet);
  }
  return out + "\n";
}

}  // namespace

std::string man_page() {
  std::string out(kBegin);
  for (const HelpGroup group : kHelpGroups) {
    out += fmt::format(".SS {}\n", heading(group));
    for (const Option& row : all_options()) {
      if (row.group == group) {
        out += describe_option(row);
      }
    }
  }
  return out + std::string(kManyMachines) + describe_keys() + std::string(kDevices) +
         std::string(kPorts) + std::string(kShown) + std::string(kEnd);
}

}  // namespace muster
