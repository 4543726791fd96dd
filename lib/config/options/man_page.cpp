// SPDX-License-Identifier: Apache-2.0
// muster(1) from the table, in roff.
#include "base/text.hpp"
#include "config/options/help.hpp"
#include "config/options/rdzv_conf.hpp"
#include "config/options/settings.hpp"

#include <fmt/core.h>

namespace muster {
namespace {

constexpr std::string_view kBegin = R"(.TH MUSTER 1
.SH NAME
muster \- run a program as cooperating workers, as torchrun does
.SH SYNOPSIS
.B muster
[\fIOPTION\fR]... \fIPROGRAM\fR [\fIARGUMENT\fR]...
.SH DESCRIPTION
Starts PROGRAM once for each worker of this machine, and together with the same command on other
machines those of a larger job, with the environment that PyTorch's
init_process_group("env://") reads, hosts the workers' store, keeps or shows their output, and when
one fails stops or restarts all of them and says which one failed first, and why.
No process of the job outlives it.
.PP
A PROGRAM that ends in .py is run by $PYTHON_EXEC, else by the active virtual environment's
python3, else by PATH's, with \-u; an executable file is run as it is. Called by the name
torchrun, every PROGRAM is a Python script unless \-\-no\-python says otherwise; called
torch.distributed.launch, also the argument \-\-local_rank=N is put before the program's own.
In PROGRAM and its arguments ${local_rank}, ${rank}, ${node_rank} and ${world_size} are replaced by
the worker's numbers, ${leader_addr} by the address of the machine of rank 0, and ${port0} ...,
${leader_port0} ... by reserved ports; any other $ stays as it is. Called torchrun or
torch.distributed.launch, only ${local_rank} and what was reserved are replaced, $local_rank as
well, and $$ by $.
.SH EXAMPLES
.nf
muster \-\-nproc\-per\-node=4 train.py \-\-lr=0.1
muster \-\-nproc\-per\-node=auto \-m my_package.train
muster \-\-nproc\-per\-node=2 \-\-tee=3 \-\-log\-dir=logs ./solver input.dat
muster \-\-explain=plan \-\-nproc\-per\-node=2 ./solver
.fi
.SH OPTIONS
Options stand before PROGRAM; all arguments after it are the program's own. The words of an
option's name may be joined by - or _, and the name may be shortened as long as it is unique.
A setting is taken from the command line, else from its MUSTER_ variable, else from its PET_
variable (torchrun's), else from the file of \-\-config, else it has its default.
)";

constexpr std::string_view kManyMachines = R"(.SH MANY MACHINES
Run the same command on each machine, with the number of them and a place to meet:
.PP
.nf
muster \-\-nnodes=2:4 \-\-rdzv\-backend=c10d \-\-rdzv\-endpoint=head:29400 train.py
.fi
.PP
The place is an address of one of them; it needs no server. Further addresses, behind commas, are
tried when the first is gone. Ranks follow the natural order of the machines' names (node7 before
node66), \-\-rank\-order, or \-\-node\-rank on every machine. Without \-\-rdzv\-backend=c10d, a job
has exactly as many machines as \-\-nnodes says, each with its \-\-node\-rank, and
\-\-master\-addr:\-\-master\-port is where they meet and what the workers see.
.SS The workers' store
\-\-store\-via=direct: workers connect to the launcher of the node of rank 0, which asks the
launcher of their own node whether they are of this job, and refuses everybody else. proxy:
MASTER_ADDR is 127.0.0.1, and the launchers carry the bytes; also where addresses are translated
between the nodes. Programs that listen beside MASTER_ADDR need ${leader_addr} then. open: whoever
reaches the port is let in. The node of rank 0 decides for all.
.SS From one shell
.nf
muster \-\-hosts a:4,b:2 train.py
muster \-\-hostfile machines \-x WANDB_API_KEY \-\-nproc\-per\-node=auto train.py
.fi
.PP
starts the job on these machines through ssh, in the folder of the same name, by the muster of the
same path, and shows its output here. A number behind a name says how many workers run there; names
may be ranges (rack[01\-16]:8), have a user (me@b), or be IPv6 addresses ([::1]:4). A host file has
one machine a line, as "a slots=4" or "a:4", or a name several times, as a node file of PBS. A line
may also have devices=0,1, user=NAME and port=N. \-\-hosts \(aqa:2@0,1;b:2@2,3\(aq chooses the GPUs
of each machine, as \-\-devices does for all. This machine itself is started without ssh.
\-\-include=\(aqa@b:0,2\(aq keeps machine a and the GPUs 0 and 2 of b; \-\-exclude=\(aqb:0\(aq
keeps all but GPU 0 of b, as with DeepSpeed\(aqs launcher. Each remaining GPU gets one worker.
Nothing starts before all machines have answered; one that cannot be reached is one line with the
remote shell's last words, and exit status 69. What may pass, such as a host that is still booting
or a refused connection, is retried for \-\-hosts\-timeout seconds (30). A machine that is lost
later ends the job with the same status, unless \-\-nnodes=MIN:MAX says that fewer are enough. ssh
must be able to log in without a question.
\-\-rsh=COMMAND takes another remote shell, or ssh with options of your own, which then stands
alone: the usual one is ssh \-T \-x with BatchMode, ConnectTimeout and ServerAliveInterval. ssh
also gets ControlMaster=no, unless COMMAND sets ControlMaster.
Signals go to all machines. However this muster or a connection ends, nothing is left there.
.PP
All settings travel, and of the variables PATH, LD_LIBRARY_PATH, VIRTUAL_ENV, CONDA_PREFIX,
PYTHON_EXEC and those whose names begin with MUSTER_, PET_, NCCL_, GLOO_, UCX_, FI_, HF_, OMP_,
PYTHON, PYTORCH_ or TORCH; \-x NAME or \-x NAME=VALUE adds others, \-x \(aqNAME*\(aq all that
begin so. They go through the connection, never on a command line. Standard input does not travel.
With \-\-label each line begins with [machine:rank]. Of more than \-\-rsh\-fanout (32) machines, the
first ones start the others, and must be allowed to log in there. The machines meet where the first
one was reached, at a free port of it, or where \-\-rdzv\-endpoint says.
.SS Keys of \-\-rdzv\-conf
Times are in seconds, with fractions where wanted. A key that muster does not know is ignored, with
a warning if it looks like one of these.
)";

constexpr std::string_view kDevices = R"(.SH GPUS AND CPUS
\-\-devices=2,4,7 gives these GPUs to the workers, and with \-\-nproc\-per\-node=gpu or auto starts
one for each. Numbers count through CUDA_VISIBLE_DEVICES (or HIP_VISIBLE_DEVICES) where that is set,
else through the machine's GPUs; GPU\- and MIG\- names are taken as they are.
\-\-virtual\-local\-rank shows each worker only its own entry, with LOCAL_RANK=0. A process can use
one MIG slice only, so several slices need it.
.PP
\-\-numa\-binding chooses the CPUs of each worker by the NUMA node of the GPU with its local rank;
without GPUs, or with fewer than workers, the workers are spread over the nodes. node: all CPUs of
the node. socket: all of its socket. exclusive: an equal share of the node's physical cores.
core\-complex: the CPUs below one last\-level cache. auto: node, where the machine has several and
the GPUs' places are known. Memory is taken from the same nodes as long as they have some. No
binding leaves the CPUs that muster itself may use; it needs no numactl. \-\-explain shows the
masks.
)";

constexpr std::string_view kPorts = R"(.SH PORTS
\-\-ports=N reserves N TCP ports on each machine for its workers, \-\-leader\-ports=N N on the
machine of rank 0 for all of them, from \-\-port\-range where that is given, at most 256 of each:
.PP
.nf
muster \-\-ports=1 vllm serve model \-\-port \(aq${port0}\(aq
.fi
.PP
Workers find them in MUSTER_PORTS and MUSTER_LEADER_PORTS, separated by commas. They stay the same
when workers are restarted; those of rank 0 change when another machine gets that rank. A socket
that does not listen holds each port until the launcher ends: no other program is given it by the
kernel. A server that sets SO_REUSEADDR listens on it, on any address of IPv4 and IPv6; one that
does not fails with "Address already in use". A program that asks for just this port with
SO_REUSEADDR can have it, whoever it is, and UDP is not held.
.PP
With TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1 the worker of rank 0 serves the workers' store, as under
torchrun, and MASTER_PORT is a port that is held for it in the same way. It has no effect with
\-\-rdzv\-backend=static.
)";

constexpr std::string_view kShown = R"(.SH SHOWING A JOB
Whoever started a job, and root, see it with musterctl on its machine, without any option: status,
top, events, timeline, stacks, flights, stop, drain. \-\-http=PORT shows it to browsers and
monitoring as well, on 127.0.0.1; \-\-http=0.0.0.0:PORT, or another address, to other machines. The
page and /v1 contain what failed workers printed, so they need a key: muster prints the URL with it
on standard error, and musterctl url prints it again. A browser keeps the key as a cookie; programs
send it as "Authorization: Bearer KEY". \-\-http\-key=FILE takes it from a file that only you can
read; \-\-http\-key=none asks for none. Arguments and variables of the job are not shown. Only GET
and HEAD are answered, so nothing can be changed. PORT 0 is any free one. Where the port is
taken a warning says so and the job goes on. Each machine tells what it knows: all of its own
workers, and of the others what the rounds say.
.TP
/
a page that draws the job and follows it
.TP
/healthz, /readyz
200 as long as the launcher runs; 200 while all workers of the round run, else 503; without a key
.TP
/metrics
for Prometheus, without a key; all names begin with muster_
.TP
/v1/status, /v1/timeline.svg
what the job is doing, as one JSON object; rounds, nodes and workers as a picture
.TP
/v1/events
the events of events.jsonl as server\-sent events; with ?follow=0 those that were, then the end
)";

constexpr std::string_view kEnd = R"(.SH RESTARTS
After a failure all workers are started again, up to \-\-max\-restarts times. One thing ends the job
sooner: \-\-quick\-failures (3) attempts in a row whose first failure is an exit with the same code,
each within 5 s of the start of the attempt's last worker. Deaths by signals never count, and
neither do codes that shells use for them (129 to 192). Once an attempt has run for longer, no
later one counts either. \-\-quick\-failures=off tries every restart.
.SH SIGNALS
SIGTERM, SIGINT, SIGHUP and SIGQUIT end the job: nothing is started again, the other machines are
told that this one leaves, the workers get the signal and have \-\-shutdown\-timeout, then SIGKILL.
A second SIGTERM, SIGINT or SIGQUIT skips the rest of that time. SIGUSR1 and SIGUSR2 are passed on
to each worker's main process and end nothing of muster; a worker that does not handle one dies of
it, which is a failure. Ctrl\-Z stops the workers too. What was ignored when muster was started
(nohup) stays so.
.PP
Some schedulers signal every process of a job themselves, the workers included. With
\-\-signal\-delivery=group muster passes nothing on but the keys of a terminal, so that each worker
gets a signal once; a second SIGTERM changes nothing, since such schedulers send several; a worker
that dies of a stop signal has not failed if muster gets one within 1 s. auto, the default, does so
in a Slurm step for what Slurm itself sends (scancel, \-\-signal=USR1@30, the time limit,
preemption), and passes on what others send to muster alone (timeout, a shell). There the workers
have until SLURM_JOB_END_TIME and then \-\-shutdown\-timeout, unless that was given: Slurm kills
them earlier if it wants to. \-\-signal\-delivery=leader passes everything on; it is right on a
Slurm with ProctrackType=proctrack/pgid, which does not reach the workers.
.SH CONFIG FILE
TOML, one option a line: \fInproc\-per\-node = 4\fR. Lists may be written as arrays, flags are
true or false.
.SH ENVIRONMENT
For each worker: LOCAL_RANK RANK GROUP_RANK ROLE_RANK ROLE_NAME LOCAL_WORLD_SIZE WORLD_SIZE
GROUP_WORLD_SIZE ROLE_WORLD_SIZE MASTER_ADDR MASTER_PORT TORCHELASTIC_RESTART_COUNT
TORCHELASTIC_MAX_RESTARTS TORCHELASTIC_RUN_ID TORCHELASTIC_USE_AGENT_STORE TORCHELASTIC_ERROR_FILE
TORCHELASTIC_SIGNALS_TO_HANDLE, MUSTER_EPOCH (number of the round), MUSTER_AGENT (the launcher's
socket for progress and events), MUSTER_PORTS and MUSTER_LEADER_PORTS (reserved ports), and where
they are not set already TORCH_NCCL_ASYNC_ERROR_HANDLING=1 and OMP_NUM_THREADS (this machine's
usable processors, divided by the workers; with \-\-numa\-binding the worker's own; called
torchrun, 1 for several workers). With \-\-hang\-timeout also MUSTER_TORCH_FLIGHTS and, where the
first of them is not set already, TORCH_NCCL_DEBUG_INFO_PIPE_FILE and
TORCH_NCCL_DEBUG_INFO_TEMP_FILE: where PyTorch's flight recorder is asked.
.PP
Read: PYTHON_EXEC, VIRTUAL_ENV, PATH, LOGLEVEL, TORCH_ELASTIC_SHUTDOWN_TIMEOUT,
TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE, TORCH_DISABLE_SHARE_RDZV_TCP_STORE, CUDA_VISIBLE_DEVICES,
HIP_VISIBLE_DEVICES, ROCR_VISIBLE_DEVICES.
.SH EXIT STATUS
0: all workers ended well. Else that of the worker that failed first, 128+n if signal n ended it.
2: wrong command line. 69: something was unreachable or timed out. 70: an error of muster itself.
124: \-\-on\-hang=stop ended the job. 126, 127: the program cannot be run, does not exist. 128+n:
signal n interrupted muster.
.SH HANGS
With \-\-hang\-timeout=SECONDS the workers are looked at once a second. Progress is a step
(muster.worker.progress in Python), an operation of muster's collective library or, where neither
is seen, a line of output that passes through muster (\-\-label, \-\-tee) or goes into its files.
Without progress for so long, the rank that holds up the others is named with the cause: its state,
its system call, its stacks (by py\-spy and eu\-stack, where they are in PATH), its children and its
place in the collective operations. A rank that writes output or does I/O is slow, not hung, until
ten times the limit. auto: three times the longest of the last 64 intervals between steps, at least
10 s; half an hour before the fifth step.
.PP
\-\-on\-hang=report says so, and ends nothing. restart ends the named rank as a failure, which uses
up one of \-\-max\-restarts. stop does so too, and ends the job with code 124; the report then says
that the rank "made no progress and was killed", by \-\-on\-hang=stop. The log folder's hang/N holds
verdict.json, evidence.json and a file for each rank. In a job of many nodes all of them look at the
same moment; one verdict names the rank and its node on all, in full on the node that leads the job,
whose \-\-on\-hang counts for all.
.SH FAILURE REPORT
After a failure, and with \-\-log\-dir, the run's log folder holds report.json;
"musterctl report DIR" prints the newest one. It is one object: outcome, exit_code, program, node,
workers, attempts, max_restarts, verdict (why the job ended), root_cause (the worker that failed
first: rank, local_rank, node, pid, attempt, unix_time, end, exit_code, signal, out_of_memory,
message and traceback of a Python exception, stderr_tail, error_file), other_failures with
other_failures_count, overdue_local_ranks (killed after the grace period) and not_killed
(processes that remain).
.PP
The same folder holds events.jsonl from the first round on: one JSON object on one line for each
thing that this node learned (v, time, event, node, round and the event's own fields), the last one
being job_ended. v is 1: ignore events and fields that you do not know. lib/agent/EVENTS.md in the
sources lists them all. Arguments and variables of the job are not in it.
.SH SEE ALSO
.BR muster\-store (1),
.BR musterctl (1)
)";

// Dashes that can be copied from the page, and no line that roff takes for a command.
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
  return out + ".PP\nAccepted as by torchrun, without an effect: " + roff(join(idle, ", ")) + ".\n";
}

std::string describe(const Option& row) {
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
        out += describe(row);
      }
    }
  }
  return out + std::string(kManyMachines) + describe_keys() + std::string(kDevices) +
         std::string(kPorts) + std::string(kShown) + std::string(kEnd);
}

}  // namespace muster
