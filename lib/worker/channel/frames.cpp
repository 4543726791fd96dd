// SPDX-License-Identifier: Apache-2.0
#include "worker/channel/frames.hpp"

#include "base/json_dump.hpp"

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <concepts>
#include <limits>
#include <type_traits>

namespace muster::channel {
namespace {

using Json = nlohmann::ordered_json;

std::unexpected<Error> refuse(std::string what) {
  return failure(Errc::protocol, std::move(what));
}

// nlohmann serializes recursively, so limit the nesting depth before parsing.
bool is_deep(std::string_view text) {
  int depth = 0;
  bool quoted = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quoted) {
      i += c == '\\' ? 1 : 0;
      quoted = c != '"';
    } else if (c == '"') {
      quoted = true;
    } else if (c == '{' || c == '[') {
      if (++depth > kDepthMax) {
        return true;
      }
    } else if (c == '}' || c == ']') {
      --depth;
    }
  }
  return false;
}

Result<Json> parse(std::string_view line) {
  if (line.size() > kFrameBytesMax) {
    return refuse(fmt::format("a frame of more than {} bytes", kFrameBytesMax));
  }
  if (is_deep(line)) {
    return refuse(fmt::format("a frame nested more than {} levels deep", kDepthMax));
  }
  Json out = Json::parse(line, nullptr, false);
  if (out.is_discarded()) {
    return refuse("a line that is not JSON");
  }
  return out;
}

// Reads the fields of one object; remembers the first field that is missing or has the wrong type.
class Fields {
 public:
  explicit Fields(const Json& object) : object_(object) {}

  template <std::integral Number>
  void number(const char* name, Number& out) {
    const Json* const found = find(name);
    if (found == nullptr) {
      return;
    }
    const auto most = static_cast<std::uint64_t>(std::numeric_limits<Number>::max());
    if (!found->is_number_unsigned() || found->get<std::uint64_t>() > most) {
      complain(name, "is not a non-negative integer");
      return;
    }
    out = static_cast<Number>(found->get<std::uint64_t>());
  }

  void seconds(const char* name, double& out) {
    const Json* const found = find(name);
    if (found == nullptr) {
      return;
    }
    if (!found->is_number()) {
      complain(name, "is not a number");
      return;
    }
    out = found->get<double>();
  }

  void flag(const char* name, bool& out) {
    const Json* const found = find(name);
    if (found != nullptr && !found->is_boolean()) {
      complain(name, "is neither true nor false");
    } else if (found != nullptr) {
      out = found->get<bool>();
    }
  }

  // May be missing, because earlier versions of the protocol did not have it.
  void optional_flag(const char* name, bool& out) {
    if (object_.contains(name)) {
      flag(name, out);
    }
  }

  void optional_number(const char* name, std::optional<std::uint64_t>& out) {
    if (object_.contains(name)) {
      number(name, out.emplace());
    }
  }

  void text(const char* name, std::string& out) {
    const Json* const found = find(name);
    if (found != nullptr && !found->is_string()) {
      complain(name, "is not a string");
    } else if (found != nullptr) {
      out = found->get<std::string>();
    }
  }

  void json(const char* name, std::string& out) {
    if (const Json* const found = find(name)) {
      out = found->dump();
    }
  }

  void nodes(const char* name, std::vector<NodeRanks>& out);

  [[nodiscard]] const std::string& problem() const { return problem_; }

 private:
  const Json* find(const char* name) {
    const auto found = object_.find(name);
    if (found == object_.end()) {
      complain(name, "is missing");
      return nullptr;
    }
    return &*found;
  }

  void complain(const char* name, const char* what) {
    if (problem_.empty()) {
      problem_ = fmt::format("'{}' {}", name, what);
    }
  }

  const Json& object_;
  std::string problem_;
};

void fields(Fields& in, ProgressMade& frame) {
  in.number("step", frame.step);
}

void fields(Fields& /*in*/, Healthy& /*frame*/) {}

void fields(Fields& in, Unhealthy& frame) {
  in.text("why", frame.why);
}

void fields(Fields& in, WorkerEvent& frame) {
  in.json("data", frame.data);
}

void fields(Fields& in, Ready& frame) {
  in.number("epoch", frame.epoch);
}

void fields(Fields& in, Subscribe& frame) {
  in.optional_flag("mends", frame.mends);
}

void fields(Fields& in, Heard& frame) {
  in.optional_flag("arrived", frame.arrived);
}

void fields(Fields& in, Saved& frame) {
  in.number("step", frame.step);
}

void fields(Fields& /*in*/, Outlive& /*frame*/) {}

void fields(Fields& in, Hello& frame) {
  in.number("version", frame.version);
  in.number("epoch", frame.epoch);
  in.number("rank", frame.rank);
  in.number("local_rank", frame.local_rank);
}

void fields(Fields& in, NodeRanks& node) {
  in.text("node", node.node);
  in.number("rank", node.rank);
  in.number("count", node.count);
}

void Fields::nodes(const char* name, std::vector<NodeRanks>& out) {
  const Json* const found = find(name);
  if (found == nullptr) {
    return;
  }
  if (!found->is_array() || found->size() > kNodesNamedMax) {
    complain(name, "is not a list of nodes");
    return;
  }
  for (const Json& one : *found) {
    Fields inner(one);
    NodeRanks node;
    if (one.is_object()) {
      channel::fields(inner, node);
    }
    if (!one.is_object() || !inner.problem().empty()) {
      complain(name, "is not a list of nodes");
      return;
    }
    out.push_back(std::move(node));
  }
}

void fields(Fields& in, Round& frame) {
  in.number("epoch", frame.epoch);
  in.number("rank", frame.rank);
  in.number("world_size", frame.world_size);
  in.number("local_rank", frame.local_rank);
  in.number("local_world_size", frame.local_world_size);
  in.number("group_rank", frame.group_rank);
  in.number("group_world_size", frame.group_world_size);
  in.number("restarts", frame.restarts);
  in.text("store_address", frame.store_address);
  in.number("store_port", frame.store_port);
  in.nodes("left", frame.left);
  in.nodes("joined", frame.joined);
}

void fields(Fields& in, Gone& frame) {
  in.number("epoch", frame.epoch);
  in.number("rank", frame.rank);
  in.number("count", frame.count);
  in.flag("failed", frame.failed);
  in.text("why", frame.why);
}

void fields(Fields& in, Stop& frame) {
  in.seconds("seconds", frame.seconds);
  in.text("why", frame.why);
}

void fields(Fields& in, Refused& frame) {
  in.text("why", frame.why);
}

void fields(Fields& in, Preempt& frame) {
  in.optional_number("step", frame.step);
  in.seconds("seconds", frame.seconds);
  in.text("why", frame.why);
}

// Frame names, in the order of the variant's alternatives.
constexpr const char* kWorkerTypes[] = {
    "progress", "healthy", "unhealthy", "event", "ready", "subscribe", "heard", "saved", "outlive"};
constexpr const char* kAgentTypes[] = {"hello", "round", "gone", "stop", "refused", "preempt"};
static_assert(std::size(kWorkerTypes) == std::variant_size_v<WorkerFrame>);
static_assert(std::size(kAgentTypes) == std::variant_size_v<AgentFrame>);

template <class Frame>
Result<std::optional<Frame>> read(const Json& object, Frame frame) {
  Fields in(object);
  std::visit([&](auto& one) { fields(in, one); }, frame);
  if (!in.problem().empty()) {
    return refuse(in.problem());
  }
  return frame;
}

template <class Frame, std::size_t... Index>
Result<std::optional<Frame>> read_type(const Json& object,
                                       const char* const* types,
                                       std::index_sequence<Index...> /*all*/) {
  const auto type = object.at("type").get<std::string>();
  Result<std::optional<Frame>> out = std::nullopt;
  ((type == types[Index] ? (out = read<Frame>(object, Frame(std::in_place_index<Index>)), true)
                         : false) ||
   ...);
  return out;
}

template <class Frame>
Result<std::optional<Frame>> decode(std::string_view line, const char* const* types) {
  const auto object = parse(line);
  if (!object) {
    return std::unexpected(object.error());
  }
  if (!object->is_object() || !object->contains("type") || !object->at("type").is_string()) {
    return refuse("a frame without 'type'");
  }
  return read_type<Frame>(*object, types, std::make_index_sequence<std::variant_size_v<Frame>>{});
}

// -- writing ----------------------------------------------------------------------------------

Json json_of(const ProgressMade& frame) {
  return {{"step", frame.step}};
}

Json json_of(const Healthy& /*frame*/) {
  return Json::object();
}

Json json_of(const Unhealthy& frame) {
  return {{"why", frame.why}};
}

Json json_of(const WorkerEvent& frame) {
  return {{"data", Json::parse(frame.data, nullptr, false)}};
}

Json json_of(const Ready& frame) {
  return {{"epoch", frame.epoch}};
}

Json json_of(const Subscribe& frame) {
  return frame.mends ? Json{{"mends", true}} : Json::object();
}

Json json_of(const Heard& frame) {
  return frame.arrived ? Json{{"arrived", true}} : Json::object();
}

Json json_of(const Saved& frame) {
  return {{"step", frame.step}};
}

Json json_of(const Outlive& /*frame*/) {
  return Json::object();
}

Json json_of(const Hello& frame) {
  return {{"version", frame.version},
          {"epoch", frame.epoch},
          {"rank", frame.rank},
          {"local_rank", frame.local_rank}};
}

Json json_of(const std::vector<NodeRanks>& nodes) {
  Json out = Json::array();
  for (std::size_t i = 0; i < nodes.size() && i < kNodesNamedMax; ++i) {
    const NodeRanks& one = nodes[i];
    out.push_back({{"node", one.node}, {"rank", one.rank}, {"count", one.count}});
  }
  return out;
}

Json json_of(const Round& frame) {
  return {{"epoch", frame.epoch},
          {"rank", frame.rank},
          {"world_size", frame.world_size},
          {"local_rank", frame.local_rank},
          {"local_world_size", frame.local_world_size},
          {"group_rank", frame.group_rank},
          {"group_world_size", frame.group_world_size},
          {"restarts", frame.restarts},
          {"store_address", frame.store_address},
          {"store_port", frame.store_port},
          {"left", json_of(frame.left)},
          {"joined", json_of(frame.joined)}};
}

Json json_of(const Gone& frame) {
  return {{"epoch", frame.epoch},
          {"rank", frame.rank},
          {"count", frame.count},
          {"failed", frame.failed},
          {"why", frame.why}};
}

Json json_of(const Stop& frame) {
  return {{"seconds", frame.seconds}, {"why", frame.why}};
}

Json json_of(const Refused& frame) {
  return {{"why", frame.why}};
}

Json json_of(const Preempt& frame) {
  Json out{{"seconds", frame.seconds}, {"why", frame.why}};
  if (frame.step) {
    out["step"] = *frame.step;
  }
  return out;
}

template <class Frame>
std::string write(const Frame& frame, const char* const* types) {
  Json out;
  out["type"] = types[frame.index()];
  out.update(std::visit([](const auto& one) { return json_of(one); }, frame));
  return dump_json(std::move(out)) + "\n";
}

}  // namespace

std::string encode(const WorkerFrame& frame) {
  return write(frame, kWorkerTypes);
}

std::string encode(const AgentFrame& frame) {
  return write(frame, kAgentTypes);
}

Result<std::optional<WorkerFrame>> decode_worker_frame(std::string_view line) {
  return decode<WorkerFrame>(line, kWorkerTypes);
}

Result<std::optional<AgentFrame>> decode_agent_frame(std::string_view line) {
  return decode<AgentFrame>(line, kAgentTypes);
}

// Checks the frame as the agent will read it. The frame adds one level of nesting around the data,
// and numbers may be rewritten with more digits.
Result<WorkerEvent> event_of(std::string_view json) {
  WorkerEvent out{std::string(json)};
  const auto refused = [](const Error& why) {
    return failure(Errc::usage, "cannot send this event: " + why.message);
  };
  if (const auto parsed = parse(json); !parsed) {
    return refused(parsed.error());
  }
  std::string line = encode(WorkerFrame(out));
  line.pop_back();
  if (const auto read = decode_worker_frame(line); !read) {
    return refused(read.error());
  }
  return out;
}

Result<std::optional<std::string>> LineReader::next() {
  const auto end = bytes_.find('\n');
  if (std::min(end, bytes_.size()) > kFrameBytesMax) {
    return refuse(fmt::format("a frame of more than {} bytes", kFrameBytesMax));
  }
  if (end == std::string::npos) {
    return std::nullopt;
  }
  std::string line = bytes_.substr(0, end);
  bytes_.erase(0, end + 1);
  return line;
}

}  // namespace muster::channel
