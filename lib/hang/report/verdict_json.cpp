// SPDX-License-Identifier: Apache-2.0
#include "base/json_dump.hpp"
#include "hang/judge/collective_places.hpp"
#include "hang/report/verdict_text.hpp"

#include <nlohmann/json.hpp>

#include <utility>

namespace muster::hang {
namespace {

using VerdictJson = nlohmann::ordered_json;

VerdictJson group_json(const Group& group) {
  return {{"ranks", group.ranks},
          {"cause", name_of(group.cause)},
          {"nodes", group.nodes},
          {"reason", group.reason},
          {"position", group.position},
          {"waits_for", group.waits_for},
          {"stack", group.stack}};
}

VerdictJson process_json(const ProcessFacts& process) {
  VerdictJson threads = VerdictJson::array();
  for (const ThreadFacts& thread : process.threads) {
    threads.push_back({{"tid", thread.tid},
                       {"name", thread.name},
                       {"state", std::string(1, thread.state)},
                       {"cpu", thread.cpu},
                       {"kernel_function", thread.kernel_function},
                       {"call", thread.wait.call},
                       {"path", thread.wait.path},
                       {"holder", thread.wait.holder}});
  }
  VerdictJson stacks = VerdictJson::array();
  for (const Stack& stack : process.stacks) {
    VerdictJson frames = VerdictJson::array();
    for (const Frame& frame : stack.frames) {
      frames.push_back({{"function", frame.function}, {"file", frame.file}, {"line", frame.line}});
    }
    stacks.push_back({{"tid", stack.tid},
                      {"name", stack.name},
                      {"python", stack.python},
                      {"holds_gil", stack.holds_gil},
                      {"frames", std::move(frames)}});
  }
  return {{"pid", process.pid},
          {"parent", process.parent},
          {"command", process.command},
          {"state", std::string(1, process.state)},
          {"tracer", process.tracer},
          {"threads", std::move(threads)},
          {"stacks", std::move(stacks)}};
}

VerdictJson rank_json(const RankEvidence& rank) {
  VerdictJson processes = VerdictJson::array();
  for (const ProcessFacts& process : rank.processes) {
    processes.push_back(process_json(process));
  }
  return {{"rank", rank.rank},
          {"local_rank", rank.local_rank},
          {"ended", rank.ended},
          {"quiet", rank.quiet},
          {"steps", rank.steps ? VerdictJson(*rank.steps) : VerdictJson()},
          {"position", describe_position(rank)},
          {"processes", std::move(processes)}};
}

VerdictJson groups_json(const std::vector<Group>& groups) {
  VerdictJson out = VerdictJson::array();
  for (const Group& group : groups) {
    out.push_back(group_json(group));
  }
  return out;
}

VerdictJson ranks_json(const Evidence& evidence) {
  VerdictJson out = VerdictJson::array();
  for (const RankEvidence& rank : evidence.ranks) {
    out.push_back(rank_json(rank));
  }
  return out;
}

std::string text_of(const VerdictJson& json) {
  return dump_json(json, 1) + "\n";
}

}  // namespace

std::string stacks_json(const std::vector<Group>& groups, const Evidence& evidence) {
  return text_of({{"v", 1},
                  {"groups", groups_json(groups)},
                  {"evidence", ranks_json(evidence)},
                  {"gaps", evidence.gaps}});
}

std::string json_of(const Verdict& verdict, const VerdictFacts& facts) {
  // In the order of OnHang.
  static constexpr const char* kActions[] = {"report", "restart", "stop"};
  return text_of({{"v", 1},
                  {"cause", name_of(verdict.cause)},
                  {"ranks", verdict.ranks},
                  {"nodes", verdict.nodes},
                  {"reason", verdict.reason},
                  {"quiet", facts.quiet},
                  {"limit", facts.limit},
                  {"action", kActions[static_cast<int>(facts.action)]},
                  {"gaps", facts.gaps},
                  {"groups", groups_json(verdict.groups)}});
}

std::string json_of(const Evidence& evidence) {
  return text_of({{"v", 1}, {"ranks", ranks_json(evidence)}});
}

}  // namespace muster::hang
