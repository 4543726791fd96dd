// SPDX-License-Identifier: Apache-2.0
#include "config/options/explain.hpp"
#include "unit/config/launch.hpp"

using namespace muster;

namespace {

bool uses_jax(const std::string& source, std::vector<std::string> args = {}) {
  Launch launch{std::move(args), {}};
  launch.machine.texts["train.py"] = source;
  return launch.config().jax;
}

}  // namespace

TEST_CASE("frameworks: a program that imports jax gets JAX's variables") {
  CHECK(uses_jax("import jax\n"));
  CHECK(uses_jax("import os\nif True:\n\timport os, jax.numpy as jnp\n"));
  CHECK(uses_jax("from jax import numpy"));
  CHECK(uses_jax("from jax.experimental import mesh_utils\r\n"));
  CHECK_FALSE(uses_jax(""));
  CHECK_FALSE(uses_jax("import torch  # not jax\n"));
  CHECK_FALSE(uses_jax("import jaxtyping\nfrom jaxlib import x\n# import jax\n"));
  CHECK_FALSE(uses_jax("from . import jax\n"));
}

TEST_CASE("frameworks: --env-for overrides what the program imports") {
  CHECK(uses_jax("import model\n", {"--env-for=jax"}));
  CHECK_FALSE(uses_jax("import jax\n", {"--env-for=none"}));
  CHECK(error({"--env-for=mpi"}) == "--env-for=mpi: must be one of auto, jax, none");
}

TEST_CASE("frameworks: also for a module in this directory, and not for a program in C++") {
  Launch module{{"-m"}, {}};
  module.program = {"app.train"};
  module.machine.texts["app/train.py"] = "import jax\n";
  module.machine.kinds["app/train.py"] = FileKind::plain;
  CHECK(module.config().jax);
  Launch solver{{}, {}};
  solver.program = {"./solver"};
  solver.machine.kinds["./solver"] = FileKind::executable;
  solver.machine.texts["./solver"] = "import jax\n";
  CHECK_FALSE(solver.config().jax);
}

TEST_CASE("frameworks: the explanation says why") {
  Launch launch{{}, {}};
  launch.machine.texts["train.py"] = "import jax\n";
  CHECK(launch.config().shown.at("env-for") == "jax");
  CHECK(launch.config().origins.at("env-for") == "train.py imports jax");
  CHECK(config({}).shown.at("env-for") == "none");
}

TEST_CASE("frameworks: the coordinator's port counts as a leader port") {
  CHECK(reserved_leader_ports(config({"--env-for=jax", "--leader-ports=2"})) == 3);
  CHECK(reserved_leader_ports(config({"--leader-ports=2"})) == 2);
  CHECK(error({"--env-for=jax", "--leader-ports=256"}) ==
        "--leader-ports=256: must be from 0 to 255");
  CHECK(error({"--env-for=jax", "--port-range=30000-30000"})
            .ends_with("has 1 port, but 2 are needed for listening sockets and reserved ports"));
}

TEST_CASE("frameworks: an import of jax is no reason to refuse a job") {
  const auto launched = [](const std::vector<std::string>& args) {
    Launch launch{args, {}};
    launch.machine.texts["train.py"] = "import jax\n";
    return launch.config();
  };
  CHECK_FALSE(launched({"--port-range=30000-30000"}).jax);
  CHECK(launched({"--port-range=30000-30001"}).jax);
  CHECK(launched({"--leader-ports=255"}).jax);
  const LaunchConfig full = launched({"--leader-ports=256"});
  CHECK(full.leader_ports == 256);
  CHECK_FALSE(full.jax);
  CHECK(full.origins.at("env-for") == "no port is left for JAX's coordinator");
}
