// SPDX-License-Identifier: Apache-2.0
// muster(1) from the table, in roff.
#include "base/text.hpp"
#include "config/help.hpp"
#include "config/settings.hpp"

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
In PROGRAM and its arguments ${local_rank} is replaced by the worker's local rank.
.SH EXAMPLES
.nf
muster \-\-nproc\-per\-node=4 train.py \-\-lr=0.1
muster \-\-nproc\-per\-node=auto \-m my_package.train
muster \-\-nproc\-per\-node=2 \-\-tee=3 \-\-log\-dir=logs ./solver input.dat
muster \-\-explain=plan \-\-nproc\-per\-node=2 ./solver
.fi
.SH OPTIONS
Options stand before PROGRAM; all words behind it are the program's own. The words of an option's
name may be joined by - or _, and the name may be shortened as long as it is unique. A setting is
taken from the command line, else from its MUSTER_ variable, else from its PET_ variable
(torchrun's), else from the file of \-\-config, else it has its default.
)";

constexpr std::string_view kMeeting = R"(.SH MANY MACHINES
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
.SS Keys of \-\-rdzv\-conf
Times are in seconds, with fractions where wanted. Keys that muster does not know are ignored.
.TP
join_timeout=600
how long to wait for MIN machines; with the static back end the key is timeout=900.
.TP
last_call_timeout=30
with MIN machines but not MAX: how long to wait for more before the job starts.
.TP
close_timeout=30
how long the end of the job may take to be known everywhere.
.TP
lease=9
a machine that says nothing for so long is lost to the job; at least 0.2. Also
keep_alive_interval (5) times keep_alive_max_attempt (3), if one of them is given.
.TP
join_delay=0
how long newcomers to a running job are gathered before it is regrouped with them; never: until it
is regrouped for another reason.
.TP
is_host=true
this machine hosts the meeting, or must not (false); without it, the one that has the address does.
.TP
risk_two_worlds=true
when the network is cut, go on also without a majority of the machines. Both halves may then run,
and write the same files: for two machines where waiting is worse.
.PP
Taken without an effect: read_timeout, heartbeat_timeout, cas_backoff_max_seconds, store_type=tcp.
)";

constexpr std::string_view kEnd = R"(.SH CONFIG FILE
TOML, one option a line: \fInproc\-per\-node = 4\fR. Lists may be written as arrays, flags are
true or false.
.SH ENVIRONMENT
For each worker: LOCAL_RANK RANK GROUP_RANK ROLE_RANK ROLE_NAME LOCAL_WORLD_SIZE WORLD_SIZE
GROUP_WORLD_SIZE ROLE_WORLD_SIZE MASTER_ADDR MASTER_PORT TORCHELASTIC_RESTART_COUNT
TORCHELASTIC_MAX_RESTARTS TORCHELASTIC_RUN_ID TORCHELASTIC_USE_AGENT_STORE TORCHELASTIC_ERROR_FILE
TORCHELASTIC_SIGNALS_TO_HANDLE, and where they are not set already TORCH_NCCL_ASYNC_ERROR_HANDLING=1
and OMP_NUM_THREADS (this machine's usable processors, divided by the workers).
.PP
Read: PYTHON_EXEC, VIRTUAL_ENV, PATH, LOGLEVEL, TORCH_ELASTIC_SHUTDOWN_TIMEOUT,
TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE, CUDA_VISIBLE_DEVICES, HIP_VISIBLE_DEVICES,
ROCR_VISIBLE_DEVICES.
.SH EXIT STATUS
0: all workers ended well. Else that of the worker that failed first, 128+n if signal n ended it.
2: wrong command line. 69: something was unreachable or timed out. 70: an error of muster itself.
126, 127: the program cannot be run, does not exist. 128+n: signal n interrupted muster.
.SH SEE ALSO
.BR muster\-store (1)
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

std::string describe(const Option& row) {
  std::string flag = row.letter != 0 ? fmt::format("\\fB\\-{}\\fR, ", row.letter) : "";
  flag += fmt::format("\\fB{}\\fR", roff(long_flag(row)));
  if (!row.value_name.empty()) {
    flag += fmt::format(" \\fI{}\\fR", roff(row.value_name));
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
  return out + std::string(kMeeting) + std::string(kEnd);
}

}  // namespace muster
