// SPDX-License-Identifier: Apache-2.0
#include "config/resolve/shell_words.hpp"
#include "unit/config/launch.hpp"

#include <algorithm>

using namespace muster;

namespace {

using Words = std::vector<std::string>;

HostsRequest request(const Launch& launch) {
  const auto out = launch.resolved();
  INFO(join(launch.args, " "));
  if (!out) {
    FAIL(out.error().message);
  }
  REQUIRE(out->hosts);
  return *out->hosts;
}

HostsRequest request(Words args) {
  return request(Launch{std::move(args), {}});
}

bool has(const Words& words, const std::string& word) {
  return std::ranges::find(words, word) != words.end();
}

}  // namespace

TEST_CASE("hosts: a job without --hosts creates no request") {
  CHECK_FALSE(Launch({}, {}).resolved()->hosts);
}

TEST_CASE("hosts: machines come from the option, its variable or a file") {
  const std::vector<JobHost> both{{"a", 4}, {"b", {}}};
  CHECK(request({"--hosts=a:4,b"}).hosts == both);
  CHECK(request({"-H", "a:4,b"}).hosts == both);
  CHECK(request(Launch{{}, {{"MUSTER_HOSTS", "a:4,b"}}}).hosts == both);
  Launch file{{"--hostfile=machines"}, {}};
  file.machine.texts["machines"] = "a slots=4\nb\n";
  CHECK(request(file).hosts == both);
}

TEST_CASE("hosts: every setting becomes an option, whatever its source") {
  Launch launch{{"--hosts=a,b", "--warm", "--config=job.toml", "-l"},
                {{"MUSTER_ROLE", "trainer"}, {"PET_TEE", "3"}, {"PET_VIRTUAL_LOCAL_RANK", "0"}}};
  launch.machine.texts["job.toml"] = "max-restarts = 3\nnproc-per-node = 2\n";
  const HostsRequest out = request(launch);
  CHECK(out.options == Words{"--nproc-per-node=2",
                             "--role=trainer",
                             "--warm=auto",
                             "--max-restarts=3",
                             "--tee=3",
                             "--label"});
  CHECK(out.label);
  CHECK(out.program == Words{"train.py"});
  CHECK(out.nodes_min == 2);
}

TEST_CASE("hosts: the passed options give the same configuration as if typed here") {
  const Words asked{"--nproc-per-node=2",
                    "--tee=3",
                    "--log-dir=logs",
                    "--max-restarts=1",
                    "--shutdown-timeout=7",
                    "--no-python"};
  Words with_hosts = asked;
  with_hosts.push_back("--hosts=a");
  const HostsRequest out = request(with_hosts);
  Launch launch{out.options, {}};
  launch.program = {"./solver"};
  LaunchConfig there = launch.config();
  launch.args = asked;
  LaunchConfig here = launch.config();
  there.rdzv_id = here.rdzv_id;
  CHECK(there == here);
  CHECK(out.grace == std::chrono::seconds(7));
}

TEST_CASE("hosts: passes some variables on, but no settings and none about one machine") {
  const HostsRequest out = request(Launch{{"--hosts=a", "-xFOO", "-x", "BAR=x=y", "-x", "EMPTY="},
                                          {{"FOO", "1"},
                                           {"OTHER", "1"},
                                           {"FI_PROVIDER", "efa"},
                                           {"HF_HOME", "/data/hf"},
                                           {"NCCL_DEBUG", "INFO"},
                                           {"UCX_TLS", "tcp"},
                                           {"CUDA_VISIBLE_DEVICES", "0"},
                                           {"MUSTER_COLLECTIVE_TIMEOUT", "5"},
                                           {"MUSTER_TEE", "3"},
                                           {"PET_ROLE", "x"}}});
  CHECK(out.environment == std::map<std::string, std::string>{{"BAR", "x=y"},
                                                              {"EMPTY", ""},
                                                              {"FI_PROVIDER", "efa"},
                                                              {"FOO", "1"},
                                                              {"HF_HOME", "/data/hf"},
                                                              {"MUSTER_COLLECTIVE_TIMEOUT", "5"},
                                                              {"NCCL_DEBUG", "INFO"},
                                                              {"PATH", "/opt/bin:/usr/bin"},
                                                              {"UCX_TLS", "tcp"}});
  CHECK(out.settings == Words{"MUSTER_TEE", "PET_ROLE"});
}

TEST_CASE("hosts: -x selects all variables with a prefix") {
  const HostsRequest out = request(
      Launch{{"--hosts=a", "-x", "WANDB_*"}, {{"WANDB_A", "1"}, {"WANDB_B", "2"}, {"WAND", "3"}}});
  CHECK(out.environment == std::map<std::string, std::string>{
                               {"PATH", "/opt/bin:/usr/bin"}, {"WANDB_A", "1"}, {"WANDB_B", "2"}});
  CHECK_FALSE(Launch({"--hosts=a", "-x", "*"}, {}).resolved());
}

TEST_CASE("hosts: this machine needs no ssh, except for another user or another remote shell") {
  Launch launch{{"--hosts=node7,localhost,node8,me@node7,10.0.0.7"}, {}};
  launch.machine.name = "node7.cluster";
  std::vector<bool> local;
  for (const JobHost& host : request(launch).hosts) {
    local.push_back(host.is_local);
  }
  CHECK(local == std::vector<bool>{true, true, false, false, true});
  launch.args.emplace_back("--rsh=ssh -v");
  CHECK_FALSE(request(launch).hosts.front().is_local);
}

TEST_CASE("hosts: GPUs by machine, or the same for all") {
  CHECK(request({"--hosts=a:2@0,1;b:2@2,3"}).hosts.back().devices == "2,3");
  CHECK(Launch({"--hosts=a:2@0,1", "--devices=0,1"}, {})
            .error()
            .find("are also set in the host list") != std::string::npos);
}

TEST_CASE("hosts: --include and --exclude select machines and GPUs") {
  const std::vector<JobHost> chosen{{"a", 4}, {"b", 2, "0,2"}};
  CHECK(request({"--hosts=a:4,b:4,c:4", "--include=a@b:0,2"}).hosts == chosen);
  CHECK(request({"--hosts=a:4,b:4,c:4", "--exclude=c@b:1,3"}).hosts == chosen);
  Launch file{{"--hostfile=machines", "--nnodes=1:2"}, {{"MUSTER_EXCLUDE", "c"}}};
  file.machine.texts["machines"] = "a slots=4\nb slots=2 devices=0,2\nc slots=4\n";
  CHECK(request(file).hosts == chosen);
  CHECK(request(file).options.empty());
}

TEST_CASE("hosts: --include and --exclude are errors if they cannot be applied") {
  const std::string hosts = "--hosts=a:2,b:2";
  CHECK(error({hosts, "--include=c"}) ==
        "--include=c: c: no host in --hosts or --hostfile has this name");
  CHECK(error({hosts, "--exclude=b:2"}) ==
        "--exclude=b:2: b:2: b has no such slot; its slots are 0 to 1");
  CHECK(error({hosts, "--include=a", "--exclude=b"}) ==
        "--exclude=b: conflicts with --include; use only one of them");
  CHECK(error({"--include=a"}) == "--include=a: filters --hosts or --hostfile, but neither is set");
  CHECK(error({"--exclude=a"}).starts_with("--exclude=a: filters --hosts or --hostfile"));
  CHECK(error({hosts, "--include=a:0", "--devices=0"}).contains("are also set in the host list"));
}

TEST_CASE("hosts: a port is only for ssh") {
  Launch launch{{"--hostfile=machines"}, {}};
  launch.machine.texts["machines"] = "a port=2222\n";
  CHECK(request(launch).hosts.front().target == "ssh://a:2222");
  launch.args.emplace_back("--rsh=/usr/bin/ssh -v");
  CHECK(request(launch).hosts.front().target == "ssh://a:2222");
  launch.args.back() = "--rsh=kubexec";
  CHECK(launch.error().find("port= in the host file needs ssh") != std::string::npos);
}

TEST_CASE("hosts: the usual remote shell never prompts; another one is used unchanged") {
  const Words ssh = request({"--hosts=a"}).rsh;
  CHECK(ssh.front() == "ssh");
  CHECK(has(ssh, "-oBatchMode=yes"));
  CHECK(has(ssh, "-oControlMaster=no"));  // a shared master connection would end with the job
  CHECK(request({"--hosts=a", "--rsh=ssh -p 22"}).rsh ==
        Words{"ssh", "-p", "22", "-oControlMaster=no"});
  CHECK(request({"--hosts=a", "--rsh=oarsh -p 22"}).rsh == Words{"oarsh", "-p", "22"});
  CHECK(request({"--hosts=a"}).muster == "/usr/bin/muster");
  CHECK(request({"--hosts=a", "--rsh-muster=/opt/muster"}).muster == "/opt/muster");
  CHECK(request({"--hosts=a"}).fanout == 32);
  CHECK(request({"--hosts=a", "--rsh-fanout=7"}).fanout == 7);
  CHECK(request({"--hosts=a"}).reach_timeout == std::chrono::seconds(30));
  CHECK(request({"--hosts=a", "--hosts-timeout=0"}).reach_timeout == Duration::zero());
}

TEST_CASE("hosts: rendezvous settings are part of the request, not of the options") {
  CHECK(request({"--hosts=a,b"}).rdzv_id == "hosts-0123456789ab");
  const HostsRequest out = request({"--hosts=a,b",
                                    "--rdzv-id=job",
                                    "--rdzv-conf=lease=2",
                                    "--rdzv-endpoint=head:7",
                                    "--rdzv-backend=c10d"});
  CHECK(out.rdzv_id == "job");
  CHECK(out.rdzv_conf == "lease=2");
  CHECK(out.rdzv_endpoint == "head:7");
  CHECK(out.options.empty());
}

TEST_CASE("hosts: sends a token if there are several machines, unless it is disabled") {
  CHECK(request({"--hosts=a,b"}).sends_token);
  CHECK_FALSE(request({"--hosts=a"}).sends_token);
  CHECK_FALSE(request({"--hosts=a,b", "--token=none"}).sends_token);
  CHECK(request({"--hosts=a,b", "--token=none"}).options == Words{"--token=none"});
  const HostsRequest out = request({"--hosts=a,b", "--token-file=f"});
  CHECK(out.sends_token);
  CHECK(out.token_file == "f");
  CHECK(out.options.empty());
}

TEST_CASE("hosts: with --nnodes=MIN:MAX machines may be missing") {
  CHECK(request({"--hosts=a,b", "--nnodes=1:2"}).nodes_min == 1);
  CHECK(request({"--hosts=a,b", "--nnodes=2"}).nodes_min == 2);
  for (const std::string text : {"3", "1:3", "0:2", "2:1", "x", "1:2:2"}) {
    INFO(text);
    CHECK(error({"--hosts=a,b", "--nnodes=" + text}).find("--hosts lists 2") != std::string::npos);
  }
}

TEST_CASE("hosts: slots that contradict a typed --nproc-per-node are an error") {
  CHECK(error({"--hosts=a:4", "--nproc-per-node=2"}) ==
        "--nproc-per-node=2: a has 4 slots in the host list; omit this option or the slots");
  CHECK(has(request({"--hosts=a,b:2", "--nproc-per-node=2"}).options, "--nproc-per-node=2"));
}

TEST_CASE("hosts: rejects options that another machine decides or that fit only one machine") {
  for (const std::string word : {"--standalone",
                                 "--node-rank=0",
                                 "--master-addr=a",
                                 "--master-port=1",
                                 "--local-addr=10.0.0.1",
                                 "--srun",
                                 "--rdzv-backend=static",
                                 "--stdin-rank=0",
                                 "--hostfile=x",
                                 "--rsh=",
                                 "--rsh='",
                                 "--rsh-fanout=0",
                                 "--hosts-timeout=x",
                                 "--hosts-timeout=-1",
                                 "-x",
                                 "--export=1A=2"}) {
    INFO(word);
    CHECK_FALSE(Launch({"--hosts=a,b", word}, {}).error().empty());
    CHECK(Launch({"--hosts=a,b", word}, {}).error() != "no error");
  }
  Launch launch{{"--hosts=a"}, {}};
  launch.personality = Personality::torchrun;
  CHECK(launch.error() == "--hosts is not available when invoked as torchrun; run muster instead");
}

TEST_CASE("shell words: quotes and backslashes as in a POSIX shell") {
  CHECK(*shell_words("  ssh -p  22 ") == Words{"ssh", "-p", "22"});
  CHECK(*shell_words(R"(a 'b c' "d e" f\ g 'h'"i"j)") == Words{"a", "b c", "d e", "f g", "hij"});
  CHECK(*shell_words(R"('' "" 'a\b' "c\"d\e")") == Words{"", "", "a\\b", "c\"d\\e"});
  CHECK(shell_words("")->empty());
  CHECK_FALSE(shell_words("a 'b"));
  CHECK_FALSE(shell_words("a \"b"));
}
