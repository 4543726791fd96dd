// SPDX-License-Identifier: Apache-2.0
// Nodes, backends and addresses: resolve_rendezvous.cpp and the steps after it.
#include "config/resolve/resolve.hpp"
#include "unit/config/launch.hpp"

using namespace muster;

namespace {

// A multi-node job that has an endpoint.
LaunchConfig many(std::vector<std::string> args) {
  args.insert(args.end(), {"--rdzv-backend=c10d", "--rdzv-endpoint=head"});
  return config(std::move(args));
}

}  // namespace

TEST_CASE("resolve: nnodes is N or MIN:MAX") {
  CHECK(config({"--nnodes=1"}).nodes_max == 1);
  CHECK(config({"--nnodes=1:1"}).nodes_min == 1);
  CHECK(error({"--nnodes=2:20:30"}) == "--nnodes=2:20:30: must be N or MIN:MAX");
  CHECK(error({"--nnodes=a"}).find("must be N or MIN:MAX") != std::string::npos);
  for (const char* bad : {"0", "0:1", "3:2", "-1:1"}) {
    CHECK(error({std::string("--nnodes=") + bad}).find("0 < MIN <= MAX") != std::string::npos);
  }
  CHECK(error({"--nnodes=1:100001"}).find("at most 100000") != std::string::npos);
  const LaunchConfig out = many({"--nnodes=2:4"});
  CHECK(out.nodes_min == 2);
  CHECK(out.nodes_max == 4);
  CHECK(many_nodes(out));
  CHECK(many_nodes(many({"--nnodes=1:2"})));
  CHECK_FALSE(many_nodes(config({})));
}

TEST_CASE("resolve: one node without a port implies standalone, whatever the backend") {
  for (const auto& args :
       std::vector<std::vector<std::string>>{{}, {"--rdzv-backend=static"}, {"--rdzv-id=7"}}) {
    const LaunchConfig out = config(args);
    CHECK(out.standalone);
    CHECK(out.rdzv_backend == "c10d");
    CHECK(out.rdzv_endpoints == std::vector{Endpoint{"localhost", 0}});
    CHECK(out.rdzv_id == "01234567-89ab-4def-8123-456789abcdef");
    CHECK(out.master_addr == "127.0.0.1");
    CHECK(out.master_port == 0);
  }
  CHECK(config({"--rdzv-id=7"}).origins.at("rdzv-id") ==
        "default for one node if no port is set, in place of 7");
}

TEST_CASE("resolve: standalone overrides contradicting settings") {
  const LaunchConfig out =
      config({"--standalone", "--rdzv-backend=static", "--rdzv-endpoint=h:1", "--master-port=5"});
  CHECK(out.standalone);
  CHECK(out.rdzv_backend == "c10d");
  CHECK(out.rdzv_endpoints == std::vector{Endpoint{"localhost", 0}});
  CHECK(out.master_port == 0);
}

TEST_CASE("resolve: a master port keeps the backend static, also if set by its variable") {
  const LaunchConfig out = config({"--master-port=1234"});
  CHECK_FALSE(out.standalone);
  CHECK(out.rdzv_backend == "static");
  CHECK(out.rdzv_id == "none");
  CHECK(out.master_addr == "127.0.0.1");
  CHECK(out.master_port == 1234);
  CHECK(out.rdzv_endpoints == std::vector{Endpoint{"127.0.0.1", 1234}});
  CHECK(Launch{{}, {{"PET_MASTER_PORT", "4321"}}}.config().master_port == 4321);
  CHECK(config({"--master-port=1234", "--master-addr=node1"}).master_addr == "node1");
  CHECK(error({"--master-port=70000"}) == "--master-port=70000: must be from 0 to 65535");
  CHECK(error({"--master-port=1", "--master-addr=a:1"}).find("without a port") !=
        std::string::npos);
}

TEST_CASE("resolve: a static job's endpoint is the address to which workers connect") {
  const LaunchConfig out = config({"--rdzv-endpoint=[::1]:7000"});
  CHECK(out.rdzv_backend == "static");
  CHECK(out.master_addr == "::1");
  CHECK(out.master_port == 7000);
  CHECK(error({"--rdzv-endpoint=node1"}).find("needs a port") != std::string::npos);
  CHECK(error({"--rdzv-endpoint=node1:x"}).find("must be a number from 0 to 65535") !=
        std::string::npos);
  CHECK(error({"--master-port=1", "--node-rank=1"}).find("less than --nnodes") !=
        std::string::npos);
}

TEST_CASE("resolve: c10d on one node, with its default endpoint and port") {
  CHECK(config({"--rdzv-backend=c10d"}).rdzv_endpoints ==
        std::vector{Endpoint{"localhost", 29400}});
  CHECK(config({"--rdzv-backend=c10d", "--rdzv-endpoint=a"}).rdzv_endpoints ==
        std::vector{Endpoint{"a", 29400}});
  CHECK(config({"--rdzv-backend=c10d", "--rdzv-endpoint=a:0"}).rdzv_endpoints ==
        std::vector{Endpoint{"a", 0}});
  const LaunchConfig out = config({"--rdzv-backend=c10d", "--local-addr=127.0.0.2"});
  CHECK(out.rdzv_id == "none");
  CHECK(out.master_addr == "127.0.0.2");
  CHECK(out.master_port == 0);
  CHECK(
      config({"--rdzv-backend=c10d", "--rdzv-conf='join_timeout=5,last_call_timeout=1,timeout=5'"})
          .rdzv_conf.size() == 3);
}

TEST_CASE("resolve: an empty rdzv-id is replaced by a random one") {
  const LaunchConfig out = config({"--rdzv-backend=c10d", "--rdzv-id="});
  CHECK(out.rdzv_id == "0123456789abcdef0123456789abcdef");
  CHECK(out.origins.at("rdzv-id") == "random, since empty");
  CHECK(Launch{{"--rdzv-backend=c10d", "--rdzv-id="}, {}}.warnings().size() == 1);
  CHECK(Launch{{"--rdzv-id="}, {}}.warnings().empty());
}

TEST_CASE("resolve: rejects other backends, and suggests a replacement for etcd") {
  CHECK(error({"--rdzv-backend=foo"}) == "--rdzv-backend=foo: must be static or c10d");
  CHECK(error({"--rdzv-backend=etcd-v2"}).find("use --rdzv-backend=c10d") != std::string::npos);
}

TEST_CASE("resolve: rejects an invalid rdzv-conf with the rule") {
  CHECK(error({"--rdzv-conf=a"}) == "--rdzv-conf=a: 'a' must have a value");
  CHECK(error({"--rdzv-conf=join_timeout=0"}).find("must be a positive number") !=
        std::string::npos);
}

TEST_CASE("resolve: warns that a master address is ignored without a rendezvous") {
  CHECK(Launch{{"--rdzv-backend=c10d", "--master-addr=a"}, {}}.warnings().size() == 1);
  CHECK(Launch{{}, {}}.warnings().empty());
}

TEST_CASE("resolve: several nodes use the given endpoint, with c10d") {
  const LaunchConfig out = many({"--nnodes=2:4"});
  CHECK_FALSE(out.standalone);
  CHECK(out.rdzv_backend == "c10d");
  CHECK(out.rdzv_endpoints == std::vector{Endpoint{"head", 29400}});
  CHECK(out.rdzv_id == "none");
  CHECK(out.master_addr.empty());
  CHECK(out.master_port == 0);
  CHECK_FALSE(out.node_rank);
  CHECK(out.rank_order.empty());
}

TEST_CASE("resolve: several endpoints, each with its own or the default port") {
  CHECK(config({"--nnodes=3", "--rdzv-backend=c10d", "--rdzv-endpoint=h1:7000, h2,[::1]:7001"})
            .rdzv_endpoints ==
        std::vector{Endpoint{"h1", 7000}, Endpoint{"h2", 29400}, Endpoint{"::1", 7001}});
  CHECK(
      error({"--nnodes=2", "--rdzv-backend=c10d", "--rdzv-endpoint=h1,"}).find("the host of ''") !=
      std::string::npos);
}

TEST_CASE("resolve: many nodes without a place to meet are refused with what to give") {
  CHECK(error({"--nnodes=2", "--rdzv-backend=c10d"}) ==
        "--nnodes=2: needs --rdzv-endpoint=HOST[:PORT], an address of one node that all "
        "nodes can reach; if all run on this host, --rdzv-endpoint=localhost:29400");
  CHECK(error({"--nnodes=1:2"}).find("needs a rendezvous: --rdzv-backend=c10d") !=
        std::string::npos);
  CHECK(Launch{{"--rdzv-backend=c10d"}, {{"PET_NNODES", "2"}}}.error().starts_with(
      "--nnodes=2 (from PET_NNODES): needs"));
  CHECK(error({"--nnodes=2", "--rdzv-backend=c10d", "--rdzv-endpoint=h:0"})
            .find("other nodes could not find") != std::string::npos);
  CHECK(error({"--nnodes=2", "--node-rank=1", "--master-addr=h", "--master-port=0"})
            .find("other nodes could not find") != std::string::npos);
  CHECK(error({"--nnodes=2",
               "--rdzv-backend=c10d",
               "--rdzv-endpoint=/shared/f",
               "--rdzv-conf=store_type=file"})
            .find("store_type=file is not supported") != std::string::npos);
}

TEST_CASE("resolve: several nodes never become a standalone job") {
  CHECK(error({"--nnodes=2", "--standalone"}).find("--standalone starts a single-node job") !=
        std::string::npos);
  CHECK(error({"--nnodes=1:2", "--standalone", "--rdzv-endpoint=h:1"})
            .find("--standalone starts a single-node job") != std::string::npos);
  CHECK(config({"--nnodes=1", "--standalone"}).standalone);
}

TEST_CASE("resolve: a static job has all its nodes, and each its place") {
  const LaunchConfig out =
      config({"--nnodes=2:4", "--node-rank=3", "--master-addr=head", "--master-port=7000"});
  CHECK(out.rdzv_backend == "static");
  CHECK(out.nodes_min == 4);
  CHECK(out.origins.at("nnodes") == "command line, raised to MAX because the backend is static");
  CHECK(out.node_rank == 3);
  CHECK(out.rdzv_endpoints == std::vector{Endpoint{"head", 7000}});
  CHECK(out.master_addr == "head");
  CHECK(out.master_port == 7000);
  CHECK(out.rendezvous.join_timeout == std::chrono::seconds(900));
  CHECK(config({"--nnodes=2", "--rdzv-endpoint=head:7000", "--node-rank=0"}).node_rank == 0);
  CHECK(config({"--nnodes=2", "--node-rank=1", "--master-addr=h"}).rdzv_endpoints ==
        std::vector{Endpoint{"h", 29500}});
  CHECK(error({"--nnodes=2", "--node-rank=0", "--rdzv-endpoint=a:1,b:2"})
            .find("must be a single address") != std::string::npos);
}

TEST_CASE("resolve: a static multi-node job without a rank is an error, not rank 0") {
  const std::string advice =
      ": --rdzv-backend=static needs --node-rank on every node, 0 to 2; or use "
      "--rdzv-backend=c10d --rdzv-endpoint=HOST[:PORT], which assigns the ranks";
  CHECK(error({"--nnodes=3", "--master-addr=head"}) == "--nnodes=3" + advice);
  CHECK(error({"--nnodes=2:3", "--rdzv-backend=static", "--rdzv-endpoint=head:7000"}) ==
        "--nnodes=2:3" + advice);
  CHECK(Launch{{"--nnodes=3", "--master-addr=head"}, {{"PET_NODE_RANK", "2"}}}.config().node_rank ==
        2);
  CHECK(config({"--master-port=1"}).node_rank == 0);
}

TEST_CASE("resolve: a numbered node without the first node's address is an error at once") {
  const std::string advice =
      "--nnodes=2: needs --master-addr=HOST, an address of the node with --node-rank=0 that all "
      "nodes can reach, and --master-port=PORT; if all run on this host, --master-addr=127.0.0.1";
  for (const char* rank : {"--node-rank=0", "--node-rank=1"}) {
    CHECK(error({"--nnodes=2", rank}) == advice);
  }
  CHECK(error({"--nnodes=2", "--node-rank=1", "--master-port=7"}).find("reach; if all run") !=
        std::string::npos);
}

TEST_CASE("resolve: an endpoint without a node rank means c10d") {
  const LaunchConfig out = config({"--nnodes=2:3", "--rdzv-endpoint=head"});
  CHECK(out.rdzv_backend == "c10d");
  CHECK(out.nodes_min == 2);
  CHECK(out.rdzv_endpoints == std::vector{Endpoint{"head", 29400}});
  CHECK(out.origins.at("rdzv-backend") == "implied by --rdzv-endpoint without --node-rank");
  CHECK(config({"--rdzv-endpoint=head:7"}).rdzv_backend == "static");
}

TEST_CASE("resolve: a node rank is less than the number of nodes, and also valid for c10d") {
  CHECK(many({"--nnodes=2:4", "--node-rank=3"}).node_rank == 3);
  CHECK(Launch{{"--nnodes=2", "--rdzv-backend=c10d", "--rdzv-endpoint=h", "--node-rank=1"}, {}}
            .warnings()
            .empty());
  for (const char* bad : {"--node-rank=4", "--node-rank=-1"}) {
    CHECK(error({"--nnodes=2:4", "--rdzv-backend=c10d", "--rdzv-endpoint=h", bad})
              .find("at least 0 and less than --nnodes, which is 4") != std::string::npos);
  }
  CHECK(error({"--node-rank=1"}).find("less than --nnodes, which is 1") != std::string::npos);
  CHECK(Launch{{}, {{"PET_NODE_RANK", "0"}}}.config().node_rank == 0);
}

TEST_CASE("resolve: the meaning of rdzv-conf depends on the backend") {
  const LaunchConfig out = many({"--nnodes=2", "--rdzv-conf=join_timeout=5,lease=0.5,odd=1"});
  CHECK(out.rendezvous.join_timeout == std::chrono::seconds(5));
  CHECK(out.rendezvous.lease == std::chrono::milliseconds(500));
  CHECK(out.rdzv_conf.size() == 3);
  CHECK(config({"--nnodes=2",
                "--node-rank=1",
                "--master-addr=h",
                "--rdzv-conf=timeout=5,join_timeout=x"})
            .rendezvous.join_timeout == std::chrono::seconds(5));
}

TEST_CASE("resolve: an interface determines this node's address") {
  const LaunchConfig out = many({"--nnodes=2", "--iface=eth0"});
  CHECK(out.iface == "eth0");
  CHECK(out.local_addr == "10.0.0.7");
  CHECK(out.origins.at("local-addr") == "the address of --iface=eth0");
  CHECK(config({"--iface=eth0"}).master_addr == "10.0.0.7");
  CHECK(error({"--iface=eth1"}) ==
        "--iface=eth1: no interface with this name is up and has an address that other hosts can "
        "use; available: lo (127.0.0.1), eth0 (10.0.0.7)");
  CHECK(error({"--iface=eth0", "--local-addr=a"}).find("use only one of them") !=
        std::string::npos);
}

TEST_CASE("resolve: a port range has at least two ports, and contains the endpoint's") {
  const auto range = [](std::uint16_t first, std::uint16_t last) { return std::pair(first, last); };
  CHECK(config({"--port-range=30000-30010"}).port_range == range(30000, 30010));
  CHECK(config({"--port-range=1-65535"}).port_range == range(1, 65535));
  CHECK(config({"--port-range=7-7"}).port_range == range(7, 7));
  CHECK_FALSE(config({}).port_range);
  for (const char* bad : {"30000", "2-1", "0-5", "1-65536", "a-b", "1-2-3", "-5", "1-"}) {
    CHECK(error({std::string("--port-range=") + bad}).find("must be A-B") != std::string::npos);
  }
  const std::vector<std::string> args{
      "--nnodes=2", "--rdzv-backend=c10d", "--port-range=30000-30010"};
  const auto with = [&](const char* word) {
    auto out = args;
    out.emplace_back(word);
    return out;
  };
  CHECK(error(with("--rdzv-endpoint=h:30000,g")) ==
        "--port-range=30000-30010: does not contain the port of the rendezvous endpoint "
        "g:29400");
  CHECK(config(with("--rdzv-endpoint=h:30000,g:30010")).port_range == range(30000, 30010));
  CHECK(error({"--port-range=1-9", "--master-port=10"}).find("127.0.0.1:10") != std::string::npos);
  CHECK(config({"--port-range=1-9", "--rdzv-backend=c10d"}).port_range == range(1, 9));
}

TEST_CASE("resolve: the token comes from a file, and a single node has none") {
  const std::map<std::string, std::string, std::less<>> home{{"HOME", "/home/u"},
                                                             {"MUSTER_TOKEN_FILE", "variable"}};
  const auto token = [&](std::vector<std::string> args) {
    args.insert(args.end(), {"--nnodes=2", "--rdzv-backend=c10d", "--rdzv-endpoint=h"});
    return Launch{std::move(args), home}.config().token;
  };
  CHECK(token({"--token-file=typed"}) == TokenSource{TokenFrom::file, "typed", ""});
  CHECK(token({}) == TokenSource{TokenFrom::file, "variable", ""});
  CHECK(many({"--nnodes=2"}).token.why_none == "HOME is not set");
  CHECK(Launch{{"--token-file=typed"}, home}.config().token == TokenSource{});
  CHECK(Launch{{}, home}.config().origins.at("token-file") == "not needed for one node");
  CHECK(many({"--nnodes=2", "--token=none"}).token.why_none == "--token=none");
  CHECK(token({"--token=auto"}) == token({}));
  CHECK_FALSE(many({"--nnodes=2"}).token.is_required);
  CHECK_FALSE(token({"--token=require"}).is_required);  // the file exists
  const std::vector<std::string> strict{
      "--nnodes=2", "--rdzv-backend=c10d", "--rdzv-endpoint=h", "--token=require"};
  CHECK(Launch{strict, {{"HOME", "/home/u"}}}.config().token.is_required);
  CHECK(Launch{strict, {}}.config().token.is_required);
  CHECK(error({"--token=none", "--token-file=f"}).find("use only one of them") !=
        std::string::npos);
}

TEST_CASE("resolve: uses MUNGE if its daemon is listening, or if required") {
  Launch launch{{"--nnodes=2", "--rdzv-backend=c10d", "--rdzv-endpoint=h"}, {{"HOME", "/home/u"}}};
  CHECK(launch.config().token.munge == MungeUse::none);
  launch.machine.kinds[kMungeSocket] = FileKind::other;
  CHECK(launch.config().token.munge == MungeUse::wanted);
  CHECK(launch.config().origins.at("token-file").starts_with("MUNGE socket /run/munge/"));
  CHECK(many({"--nnodes=2", "--token=munge"}).token.munge == MungeUse::demanded);
  CHECK(error({"--token=munge", "--token-file=f"}).find("use only one of them") !=
        std::string::npos);
}

TEST_CASE("resolve: rejects a token in the wrong place without printing it") {
  for (const Launch& launch : {Launch{{"--token=sesame"}, {}},
                               Launch{{}, {{"MUSTER_TOKEN", "sesame"}}},
                               Launch{{"--token=sesame", "--hosts=a,b"}, {}}}) {
    CHECK(launch.error().find("sesame") == std::string::npos);
    CHECK(launch.error().find("--token-file") != std::string::npos);
  }
}

TEST_CASE("resolve: the rank order comes from a file of names") {
  Launch launch{{"--nnodes=3", "--rdzv-backend=c10d", "--rdzv-endpoint=h", "--rank-order=file:o"},
                {}};
  const auto order = [&](const char* text) {
    launch.machine.texts["o"] = text;
    return launch.config().rank_order;
  };
  CHECK(order("# by rack\nnode9\n\n  Node2  # the fast one\r\nnode10") ==
        std::vector<std::string>{"node9", "Node2", "node10"});
  const auto refused = [&](const char* text) {
    launch.machine.texts["o"] = text;
    return launch.error();
  };
  CHECK(refused("a\nb\nA\n") == "--rank-order=file:o: 'A' is listed twice");
  CHECK(refused("a b\n") ==
        "--rank-order=file:o: 'a b' is not a single name; write one name per line");
  CHECK(refused("# none\n\n").find("the file is empty") != std::string::npos);
  launch.machine.texts.clear();
  CHECK(launch.error().find("o: No such file") != std::string::npos);
  launch.args.back() = "--rank-order=exec:o";
  CHECK(launch.error().find("must be file:PATH") != std::string::npos);
  launch.args.back() = "--node-rank=1";
  launch.variables["PET_RANK_ORDER"] = "file:o";
  CHECK(launch.error().find("use only one of them") != std::string::npos);
  CHECK(error({"--nnodes=2", "--node-rank=1", "--master-addr=h", "--rank-order=file:o"})
            .find("cannot be used with --rdzv-backend=static") != std::string::npos);
}

TEST_CASE("resolve: one warning names a setting that has no effect in this run") {
  const std::vector<std::string> numbered{"--nnodes=2", "--node-rank=1", "--master-addr=h"};
  auto args = numbered;
  args.emplace_back("--rdzv-conf=join_timeout=5,last_call_timeout=3,lease=4");
  CHECK(Launch{args, {}}.warnings() ==
        std::vector<std::string>{"--rdzv-conf: join_timeout, last_call_timeout have no effect with "
                                 "--rdzv-backend=static, which uses timeout"});
  args = {"--nnodes=2", "--rdzv-endpoint=h", "--rdzv-conf=timeout=5", "--master-port=7"};
  CHECK(Launch{args, {}}.warnings() ==
        std::vector<std::string>{
            "--rdzv-conf: timeout has no effect with --rdzv-backend=c10d, which uses "
            "join_timeout",
            "--master-port has no effect with --rdzv-backend=c10d, which uses --rdzv-endpoint"});
  CHECK(Launch{{"--rdzv-conf=timeout=5"}, {}}.warnings().empty());
}
