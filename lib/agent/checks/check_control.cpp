// SPDX-License-Identifier: Apache-2.0
#include "agent/checks/check_control.hpp"

#include "agent/rounds/shared_rounds.hpp"
#include "agent/store/reserved_ports.hpp"
#include "base/clock.hpp"
#include "base/printable.hpp"
#include "base/random.hpp"
#include "base/text.hpp"
#include "check/check_json.hpp"
#include "io/own_address.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

namespace muster {
namespace {

// The request for the figures that include links. The first request is the asking node's clock.
constexpr const char* kLinksRequest = "links";

constexpr std::size_t kRepeatIdBytes = 8;

// The ports of more nodes do not fit into a verdict.
constexpr std::size_t kLinkNodesMax = 8192;

// Host names are not unique if several launchers run on one host.
std::vector<std::string> unique_names(const std::vector<RoundNode>& nodes) {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const std::string& name = nodes[i].name;
    const bool is_unique = std::ranges::count(nodes, name, &RoundNode::name) == 1;
    names.push_back(printable(is_unique ? name : fmt::format("{} ({})", name, i)));
  }
  return names;
}

std::vector<std::string> findings_of(const check::Verdict& verdict, int node) {
  std::vector<std::string> texts;
  for (const check::Finding& finding : verdict.findings) {
    if (finding.node == node && finding.other < 0) {
      texts.push_back(finding.text);
    }
  }
  return texts;
}

}  // namespace

CheckControl::CheckControl(asio::io_context& loop, const AgentSetup& setup, CheckParts parts)
    : setup_(setup),
      parts_(std::move(parts)),
      probe_(loop, setup, parts_.spare),
      repeat_timer_(loop),
      limit_timer_(loop) {}

void CheckControl::start() {
  if (setup_.config.check != NodeCheck::off) {
    parts_.gate.use(*this, parts_.rounds);
    measure();
  }
}

void CheckControl::take(const JobEvent& event) {
  if (const auto* begun = std::get_if<event::RoundBegun>(&event.what)) {
    index_ = begun->assignment.group_rank;
    nodes_ = begun->nodes;
    has_newcomers_ = !begun->change.joined.empty();
    begun_ = steady_now();
    questions_.clear();
    measures_links_ = false;
    links_.reset();
    repeat_id_.clear();
    if (probe_.figures() && probe_.figures()->workers_ran) {
      probe_.forget();  // the workers of this round do not run yet
    }
  } else if (std::holds_alternative<event::JobEnded>(event.what)) {
    end_check();
  }
}

// -- on request -------------------------------------------------------------------------------

std::string CheckControl::request() {
  if (is_waiting_ || asks_until_) {
    return {};  // the verdict of that check
  }
  if (parts_.others != nullptr && nodes_.empty()) {
    return "no round has begun yet";
  }
  begin_repeat(random_hex(kRepeatIdBytes));
  if (parts_.others != nullptr) {
    asks_until_ = begun_ + kCheckTimeout;
    ask();
  }
  return {};
}

// Measures everything again.
void CheckControl::begin_repeat(const std::string& id) {
  repeat_id_ = id;
  is_repeating_ = true;
  begun_ = steady_now();
  measures_links_ = false;
  links_.reset();
  port_.reset();
  probe_.forget();
  measure();
}

bool CheckControl::has_workers() const {
  const SupervisorState state = parts_.supervisor.core().state();
  return state != SupervisorState::joining && state != SupervisorState::waiting &&
         state != SupervisorState::done;
}

// -- the gate ---------------------------------------------------------------------------------

bool CheckControl::needs_check() {
  return !is_checked_ || has_newcomers_;
}

void CheckControl::begin_check() {
  is_waiting_ = true;
  begun_ = steady_now();
  after(kCheckTimeout, [this] {
    parts_.events.say(LogLevel::warning,
                      "--check: no verdict within " + describe(kCheckTimeout) +
                          "; starting the workers without it");
    is_waiting_ = false;
    repeat_timer_.cancel();
    parts_.gate.open();
  });
  if (parts_.others != nullptr) {
    ask();
  } else if (probe_.figures()) {
    measured();
  } else {
    measure();
  }
}

void CheckControl::end_check() {
  is_waiting_ = false;
  is_repeating_ = false;
  asks_until_.reset();
  port_.reset();
  repeat_timer_.cancel();
  limit_timer_.cancel();
}

bool CheckControl::may_start() {
  return parts_.supervisor.core().state() == SupervisorState::joining;
}

void CheckControl::after(Duration time, std::function<void()> call) {
  limit_timer_.expires_after(time);
  limit_timer_.async_wait([call = std::move(call)](const asio::error_code& error) {
    if (!error) {
      call();
    }
  });
}

// -- this node --------------------------------------------------------------------------------

void CheckControl::measure() {
  probe_.run(has_workers(), [this] { measured(); });
}

void CheckControl::measured() {
  answer_all();
  if (parts_.others == nullptr && (is_waiting_ || is_repeating_)) {
    decide(check::judge({{setup_.hostname, *probe_.figures()}}));
  }
}

// -- several nodes ----------------------------------------------------------------------------

// All nodes receive this node's clock at about the same time.
void CheckControl::ask() {
  parts_.others->tell(InquireHere{Topic::check,
                                  measures_links_
                                      ? std::string(kLinksRequest)
                                      : fmt::format("{:.6f} {}", wall_now_seconds(), repeat_id_)});
  repeat_timer_.expires_after(kCheckRepeat);
  repeat_timer_.async_wait([this](const asio::error_code& error) {
    if (error) {
      return;
    }
    if (is_waiting_ || steady_now() < asks_until_) {
      ask();
    } else {
      asks_until_.reset();  // musterctl has given up
    }
  });
}

void CheckControl::inquire(const InquiryStep& step) {
  if (const auto* asked = std::get_if<LookNow>(&step)) {
    look(asked->question);
  } else if (const auto* all = std::get_if<JudgeNow>(&step)) {
    judge(*all);
  } else {
    hear(std::get<HearVerdict>(step).said.verdict);
  }
}

void CheckControl::look(const Look& question) {
  if (question.request != kLinksRequest) {
    char* rest = nullptr;
    clock_offset_ = wall_now_seconds() - std::strtod(question.request.c_str(), &rest);
    if (const std::string id(trim(rest)); !id.empty() && id != repeat_id_) {
      begin_repeat(id);
    }
    hold_port();
  }
  questions_.push_back(question);
  if (probe_.figures()) {
    answer_all();
  } else {
    measure();
  }
}

void CheckControl::answer_all() {
  for (const Look& question : std::exchange(questions_, {})) {
    if (may_answer(question)) {
      answer(question);
    } else {
      questions_.push_back(question);
    }
  }
}

// A node that has not received the ports of the others answers without links.
bool CheckControl::may_answer(const Look& question) const {
  const bool awaits_links = question.request == kLinksRequest && measures_links_ && !links_;
  return probe_.figures() && !awaits_links;
}

void CheckControl::answer(const Look& question) {
  check::NodeFigures figures = *probe_.figures();
  figures.values[check::Metric::clock_offset] = clock_offset_;
  figures.workers_ran = figures.workers_ran || has_workers();
  if (question.request == kLinksRequest) {
    const check::NodeFigures links = links_.value_or(check::NodeFigures{});
    figures.links = links.links;
    figures.unmeasured.insert(
        figures.unmeasured.end(), links.unmeasured.begin(), links.unmeasured.end());
  } else {
    figures.port = port_ ? port_->number() : std::uint16_t{0};
  }
  parts_.others->tell(
      LookedHere{{question.round, question.inquiry, check::encode(figures), question.topic}});
}

// The leader's part.
void CheckControl::judge(const JudgeNow& all) {
  const std::vector<std::string> names = unique_names(nodes_);
  std::vector<check::NodeReport> reports;
  check::LinkPorts ports{.ports = {}, .key = random_hex(check::kLinkKeyBytes / 2)};
  for (const NodeAnswer& node : all.nodes) {
    const bool is_known = reports.size() < names.size();
    check::NodeReport report{is_known ? names[reports.size()] : printable(node.name),
                             check::decode_figures(node.findings)};
    if (node.presence == Presence::finished) {
      report.figures.unmeasured.emplace_back("its workers have finished");
    } else if (node.presence != Presence::answered) {
      report.figures.unmeasured.emplace_back("no answer in time");
    }
    ports.ports.push_back(report.figures.port);
    reports.push_back(std::move(report));
  }
  const bool wants_links =
      all.request != kLinksRequest && reports.size() >= 2 && reports.size() <= kLinkNodesMax;
  const bool is_late = steady_now() - begun_ > kCheckTimeout - kTimeForLinks;
  std::string said;
  if (wants_links && !is_late) {
    said = check::encode(ports);
  } else {
    check::Verdict verdict = check::judge(reports);
    if (wants_links) {
      verdict.unmeasured.emplace_back("links between the nodes: no time was left");
    }
    said = check::encode(verdict, kMaxVerdictBytes);
  }
  parts_.others->tell(JudgedHere{{all.round, all.inquiry, std::move(said), all.topic}});
}

// -- links ------------------------------------------------------------------------------------

// The child process listens only on the address that the other nodes know.
void CheckControl::hold_port() {
  const std::string address =
      std::cmp_less(index_, nodes_.size()) ? nodes_[static_cast<std::size_t>(index_)].address : "";
  if (port_ || !is_own_address(address)) {
    return;
  }
  if (auto port = HeldPort::take(port_range_of(setup_.config))) {
    port_ = std::move(*port);
  }
}

void CheckControl::hear(const std::string& verdict) {
  const auto ports = check::decode_link_ports(verdict);
  if (!ports) {
    decide(check::decode_verdict(verdict));
    return;
  }
  if (!measures_links_ && ports->ports.size() == nodes_.size()) {
    measures_links_ = true;
    measure_links(*ports);
  }
  if (is_waiting_ || asks_until_) {
    ask();
  }
}

void CheckControl::measure_links(const check::LinkPorts& ports) {
  links_.reset();  // may be of the last round, whose measurement has just ended
  if (!probe_.figures()) {
    links_.emplace();  // the measurement of this node must not be interrupted
    return;
  }
  const int count = static_cast<int>(nodes_.size());
  const auto peer = [&](int node) {
    const auto at = static_cast<std::size_t>(node);
    return check::LinkPeer{node, nodes_[at].address, ports.ports[at]};
  };
  check::LinkPlan plan{.key = ports.key, .self = peer(index_)};
  for (const int distance : check::link_distances(count)) {
    const check::LinkPeer to = peer((index_ + distance) % count);
    const check::LinkPeer from = peer((index_ + count - distance) % count);
    if (to.port != 0) {
      plan.peers.push_back(to);
    }
    plan.incoming += plan.self.port != 0 && from.port != 0 ? 1 : 0;
  }
  probe_.run_links(plan, [this](const check::NodeFigures& links) {
    links_ = links;
    answer_all();
  });
}

// -- the verdict ------------------------------------------------------------------------------

void CheckControl::decide(const check::Verdict& verdict) {
  if (!is_waiting_ && !is_repeating_) {
    port_.reset();
    return;
  }
  const bool holds_round = is_waiting_;
  end_check();
  const std::chrono::duration<double> time = steady_now() - begun_;
  parts_.events.tell(event::NodesChecked{verdict, time.count()});
  if (!holds_round) {
    return;
  }
  is_checked_ = true;
  print_findings(verdict);
  if (is_required() && !verdict.bad_nodes.empty()) {
    exclude(verdict);
  } else {
    parts_.gate.open();
  }
}

// The node with rank 0 prints the findings.
void CheckControl::print_findings(const check::Verdict& verdict) const {
  if (index_ != 0) {
    return;
  }
  for (const check::Finding& finding : verdict.findings) {
    const bool leaves = is_required() && finding.other < 0;
    parts_.events.say(LogLevel::warning,
                      fmt::format("check: {}{}",
                                  check::describe(finding),
                                  leaves ? "; the node leaves the job (--check=require)" : ""));
  }
  if (verdict.more_findings > 0) {
    parts_.events.say(LogLevel::warning,
                      fmt::format("check: {} more defects", verdict.more_findings));
  }
  for (const std::string& text : verdict.unmeasured) {
    parts_.events.say(LogLevel::warning, "check: not measured: " + text);
  }
}

// Good nodes keep their round until the next one forms without the bad nodes.
void CheckControl::exclude(const check::Verdict& verdict) {
  if (std::ranges::find(verdict.bad_nodes, index_) == verdict.bad_nodes.end()) {
    after(kExclusionTimeout, [this] { parts_.gate.open(); });
    return;
  }
  const std::string why = join(findings_of(verdict, index_), "; ");
  parts_.gate.leave(Error{Errc::unreachable, "this node failed --check=require: " + why});
  after(kExclusionTimeout, [this] { parts_.gate.close(); });
}

}  // namespace muster
