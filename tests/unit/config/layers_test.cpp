// SPDX-License-Identifier: Apache-2.0
#include "config/options/layers.hpp"

#include "support/catch.hpp"

using namespace muster;

TEST_CASE("layers: given means any source except the default, typed means the command line") {
  const OptionId id = OptionId::nnodes;
  const auto collect = [&](const CommandLine& line,
                           std::map<std::string, std::string, std::less<>> variables,
                           const std::map<OptionId, std::string>& file) {
    return Layers::collect(line, Environ(std::move(variables)), {{"job.toml", file}}).value();
  };
  CommandLine typed;
  typed.options[id] = "2";
  const Layers by_line = collect(typed, {{"PET_NNODES", "3"}}, {});
  CHECK(by_line.is_typed(id));
  CHECK(by_line.is_given(id));
  const Layers by_default = collect({}, {}, {});
  CHECK_FALSE(by_default.is_typed(id));
  CHECK_FALSE(by_default.is_given(id));
  for (const Layers& other : {collect({}, {{"MUSTER_NNODES", "2"}}, {}),
                              collect({}, {{"PET_NNODES", "2"}}, {}),
                              collect({}, {}, {{id, "2"}})}) {
    CHECK(other.text(id) == "2");
    CHECK(other.is_given(id));
    CHECK_FALSE(other.is_typed(id));
  }
}

TEST_CASE("layers: an error names the source unless the value was typed") {
  const std::map<std::string, std::string, std::less<>> variables{{"PET_NNODES", "x"}};
  const auto refusal = [&](const CommandLine& line) {
    const Layers layers = Layers::collect(line, Environ(variables), {}).value();
    return layers.refuse(OptionId::nnodes, "must be N or MIN:MAX").error().message;
  };
  CommandLine line;
  CHECK(refusal(line) == "--nnodes=x (from PET_NNODES): must be N or MIN:MAX");
  line.options[OptionId::nnodes] = "y";
  CHECK(refusal(line) == "--nnodes=y: must be N or MIN:MAX");
}
