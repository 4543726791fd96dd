// SPDX-License-Identifier: Apache-2.0
#include "hang/gather/torch_dump.hpp"

#include "base/printable.hpp"
#include "base/text.hpp"
#include "hang/gather/pickle.hpp"
#include "hang/judge/positions.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <utility>

namespace muster::hang {
namespace {

using Kind = PickleValue::Kind;

constexpr std::size_t kTorchNameMax = 64;
constexpr std::size_t kTensorsShown = 3;
constexpr std::size_t kDimensionsShown = 8;
constexpr std::size_t kRanksMax = 100'000;
constexpr std::size_t kRanksShown = 8;
// PyTorch's description of the group that contains all ranks.
constexpr std::string_view kAllRanks = "default_pg";

// The relevant fields of an entry.
struct Entry {
  std::string group{};  // the group's name
  std::string description{};
  std::string operation{};  // "all_reduce", "coalesced", "send"
  std::string tensors{};    // "f32[25]"
  std::uint64_t collective = 0;
  std::uint64_t transfer = 0;
  bool is_transfer = false;
  int peer = -1;
  bool over = false;
  std::uint64_t created = 0;
};

// -- fields -----------------------------------------------------------------------------------

std::string text_of(const Pickle& dump, const PickleValue& dict, std::string_view key) {
  const PickleValue* const value = dump.find(dict, key);
  return value != nullptr && value->kind == Kind::text ? printable(value->text, kTorchNameMax) : "";
}

std::uint64_t number_of(const Pickle& dump, const PickleValue& dict, std::string_view key) {
  const PickleValue* const value = dump.find(dict, key);
  const bool fits = value != nullptr && value->kind == Kind::integer && value->integer > 0;
  return fits ? static_cast<std::uint64_t>(value->integer) : 0;
}

bool flag_of(const Pickle& dump, const PickleValue& dict, std::string_view key) {
  const PickleValue* const value = dump.find(dict, key);
  return value != nullptr && value->kind == Kind::boolean && value->integer != 0;
}

// The elements of a list.
std::vector<const PickleValue*> elements_of(const Pickle& dump, const PickleValue* list) {
  std::vector<const PickleValue*> out;
  for (const std::uint32_t item : list == nullptr ? std::vector<std::uint32_t>{} : list->items) {
    out.push_back(&dump.at(item));
  }
  return list != nullptr && list->kind == Kind::list ? out : std::vector<const PickleValue*>{};
}

// -- the part that must be the same on all ranks ----------------------------------------------

std::string type_name(std::string_view name) {
  static constexpr std::array<std::pair<std::string_view, std::string_view>, 10> names{
      {{"Float", "f32"},
       {"Double", "f64"},
       {"Half", "f16"},
       {"BFloat16", "bf16"},
       {"Long", "i64"},
       {"Int", "i32"},
       {"Short", "i16"},
       {"Char", "i8"},
       {"Byte", "u8"},
       {"Bool", "bool"}}};
  const auto* const found =
      std::ranges::find(names, name, [](const auto& one) { return one.first; });
  return std::string(found == names.end() ? name : found->second);
}

std::string shape_of(const Pickle& dump, const PickleValue& sizes) {
  std::string out;
  for (const PickleValue* const size : elements_of(dump, &sizes)) {
    if (size->kind != Kind::integer || out.size() > kDimensionsShown * sizeof("12345678")) {
      return out + ",…";
    }
    out += (out.empty() ? "" : ",") + std::to_string(size->integer);
  }
  return out;
}

std::string tensors_of(const Pickle& dump, const PickleValue& entry) {
  const auto sizes = elements_of(dump, dump.find(entry, "input_sizes"));
  const auto types = elements_of(dump, dump.find(entry, "input_dtypes"));
  std::string out;
  for (std::size_t i = 0; i < std::min(sizes.size(), kTensorsShown); ++i) {
    const bool typed = i < types.size() && types[i]->kind == Kind::text;
    out +=
        (i == 0 ? "" : " ") + (typed ? printable(type_name(types[i]->text), kTorchNameMax) : "?");
    out += "[" + shape_of(dump, *sizes[i]) + "]";
  }
  return sizes.size() > kTensorsShown ? out + fmt::format(" +{}", sizes.size() - kTensorsShown)
                                      : out;
}

// True if ranks may pass tensors of different sizes, or no tensors.
bool may_differ(std::string_view operation) {
  return operation.starts_with("all_to_all") || operation.ends_with("_v") ||
         operation == "gather" || operation == "scatter";
}

// The rank after "->" or "<-" in "send 0->1" or "recv 1<-0"; -1 means any source.
int peer_of(std::string_view name) {
  const auto arrow = std::min(name.find("->"), name.find("<-"));
  const auto peer =
      arrow == std::string_view::npos ? std::nullopt : parse_int(name.substr(arrow + 2));
  return peer && *peer >= 0 && *peer < static_cast<std::int64_t>(kRanksMax)
             ? static_cast<int>(*peer)
             : -1;
}

Entry read_entry(const Pickle& dump, const PickleValue& value) {
  Entry out;
  // process_group is a pair of the group's name and its description.
  const auto names = elements_of(dump, dump.find(value, "process_group"));
  const auto name_at = [&](std::size_t i) {
    return i < names.size() && names[i]->kind == Kind::text
               ? printable(names[i]->text, kTorchNameMax)
               : std::string();
  };
  out.group = name_at(0);
  out.description = name_at(1);
  const std::string title = text_of(dump, value, "profiling_name");  // "nccl:send 0->1"
  const std::string called = title.substr(title.rfind(':') + 1);
  out.operation = called.substr(0, called.find(' '));
  out.tensors = may_differ(out.operation) ? "" : tensors_of(dump, value);
  out.collective = number_of(dump, value, "collective_seq_id");
  out.transfer = number_of(dump, value, "p2p_seq_id");
  out.is_transfer =
      flag_of(dump, value, "is_p2p") || out.operation == "send" || out.operation == "recv";
  out.peer = out.is_transfer ? peer_of(called) : -1;
  // Some backends mark a completed operation only as retired.
  out.over = text_of(dump, value, "state") == "completed" || flag_of(dump, value, "retired");
  out.created = number_of(dump, value, "time_created_ns");
  return out;
}

// -- groups -----------------------------------------------------------------------------------

struct GroupFacts {
  Position position;
  std::vector<Entry> run;  // the entries of one call so far, which have the same number
};

// Parses "[0, 1]". Empty if any part is invalid, because an index in this list is a rank in the
// group.
std::vector<int> parse_ranks(std::string_view text) {
  std::vector<int> out;
  const std::string_view inner = text.starts_with('[') ? text.substr(1, text.find(']') - 1) : "";
  for (const auto& word : split(inner, ',')) {
    const auto rank = parse_int(trim(word));
    if (!rank || *rank < 0 || *rank >= static_cast<std::int64_t>(kRanksMax) ||
        out.size() == kRanksMax) {
      return {};
    }
    out.push_back(static_cast<int>(*rank));
  }
  return out;
}

class Groups {
 public:
  Groups(const Pickle& dump, const TorchDumpSource& source) : dump_(dump), source_(source) {}

  // Includes groups without any calls so far, because other ranks may be waiting in such a group.
  void add_members() {
    const PickleValue* const all = dump_.find(dump_.root(), "pg_config");
    for (std::size_t i = 0; all != nullptr && i + 1 < all->items.size(); i += 2) {
      const PickleValue& name = dump_.at(all->items[i]);
      if (name.kind != Kind::text || name.text.empty()) {
        continue;  // some gloo versions record no name, so the group is unknown
      }
      const PickleValue& group = dump_.at(all->items[i + 1]);
      const PickleValue* const ranks = dump_.find(group, "ranks");
      Entry entry{.group = printable(name.text, kTorchNameMax),
                  .description = text_of(dump_, group, "desc")};
      if (ranks != nullptr && ranks->kind == Kind::text) {
        ranks_[entry.group] = parse_ranks(ranks->text);
      }
      static_cast<void>(find(entry));
    }
    // Every rank is in the default group, even if the dump does not list it. It is added last,
    // because find() reads the ranks of a group only when it first sees the group.
    static_cast<void>(find({.group = "0", .description = std::string(kAllRanks)}));
  }

  void add(const Entry& entry) {
    GroupFacts* const group = find(entry);
    if (group == nullptr) {
      return;
    }
    // Entries are in the order of the calls, so the first entry of the next call completes the run.
    if (!group->run.empty() && !belongs(group->run.back(), entry)) {
      flush(*group);
    }
    group->run.push_back(entry);
  }

  std::vector<Position> take() {
    std::vector<Position> out;
    for (auto& [name, group] : groups_) {
      flush(group);
      out.push_back(std::move(group.position));
    }
    return out;
  }

 private:
  GroupFacts* find(const Entry& entry) {
    const std::string title = title_of(entry);
    const auto found = groups_.find(title);
    if (found != groups_.end()) {
      return &found->second;
    }
    if (groups_.size() == kTorchGroupsMax) {
      return nullptr;
    }
    GroupFacts& group = groups_[title];
    const std::vector<int>& ranks = ranks_[entry.group];
    const auto own = std::ranges::find(ranks, source_.rank);
    // In the default group, a rank has the same number as in the job.
    const bool all = entry.description == kAllRanks;
    group.position.group = title;
    group.position.size = static_cast<int>(ranks.size());
    group.position.rank = own != ranks.end() ? static_cast<int>(own - ranks.begin())
                                             : (all && ranks.empty() ? source_.rank : -1);
    return &group;
  }

  // A title that is unique to the group and the same on all of its ranks.
  [[nodiscard]] std::string title_of(const Entry& entry) const {
    if (entry.description == kAllRanks) {
      return fmt::format("{} ({})", kAllRanks, source_.backend);
    }
    // PyTorch describes a group as "undefined" if the program passes no description.
    const bool named = !entry.description.empty() && entry.description != "undefined";
    std::string out = fmt::format(
        "group {}{} ({})", named ? entry.description + " " : "", entry.group, source_.backend);
    const auto ranks = ranks_.find(entry.group);
    if (ranks == ranks_.end() || ranks->second.empty()) {
      return out;
    }
    out += " of ";
    for (std::size_t i = 0; i < std::min(ranks->second.size(), kRanksShown); ++i) {
      out += (i == 0 ? "" : ",") + std::to_string(ranks->second[i]);
    }
    return ranks->second.size() > kRanksShown
               ? out + fmt::format(" and {} more", ranks->second.size() - kRanksShown)
               : out;
  }

  // The operations of one call share a number. The last operation has the state of the whole call.
  static bool belongs(const Entry& before, const Entry& entry) {
    // PyTorch ends a batch with an entry named "coalesced". Only the entries before it show whether
    // the batch consists of transfers.
    if (entry.operation == "coalesced") {
      return before.is_transfer ? before.transfer == entry.transfer
                                : before.collective == entry.collective;
    }
    return before.operation != "coalesced" && before.is_transfer == entry.is_transfer &&
           (before.is_transfer ? before.transfer == entry.transfer
                               : before.collective == entry.collective);
  }

  [[nodiscard]] std::uint64_t age(const Entry& entry) const {
    return source_.now > entry.created ? source_.now - entry.created : 0;
  }

  void flush(GroupFacts& group) {
    const std::vector<Entry> run = std::exchange(group.run, {});
    if (run.empty()) {
      return;
    }
    // In a batch, only the closing entry shows that the batch has completed.
    const bool coalesced = run.back().operation == "coalesced";
    const bool over = coalesced ? run.back().over
                                : std::ranges::all_of(run, [](const Entry& e) { return e.over; });
    if (!run.front().is_transfer) {
      add_operation(group.position, collective(run, coalesced), over);
      group.position.entered = std::max(group.position.entered, run.front().collective);
      return;
    }
    for (const Entry& entry : run) {
      // The closing entry of a batch has no peer.
      if (entry.peer >= 0) {
        add_operation(group.position, transfer(entry), over);
      }
    }
  }

  [[nodiscard]] Operation collective(const std::vector<Entry>& run, bool coalesced) const {
    const Entry& first = run.front();
    // The closing entry is not an operation.
    const std::size_t more = run.size() - 1 - (coalesced && run.size() > 1 ? 1 : 0);
    Operation out{.number = first.collective, .what = what_of(first), .age = age(first)};
    out.what += more == 0 ? "" : fmt::format(" and {} more", more);
    return out;
  }

  [[nodiscard]] Operation transfer(const Entry& entry) const {
    return {
        .number = entry.transfer, .what = what_of(entry), .peer = entry.peer, .age = age(entry)};
  }

  static std::string what_of(const Entry& entry) {
    return entry.operation + (entry.tensors.empty() ? "" : " " + entry.tensors);
  }

  static void add_operation(Position& position, Operation operation, bool over) {
    if (!over) {
      if (position.pending.size() < kPendingMax) {
        position.pending.push_back(std::move(operation));
      }
      return;
    }
    // As in positions.cpp, the newest completed and the oldest pending operations are kept.
    if (position.recent.size() == kRecentMax) {
      position.recent.erase(position.recent.begin());
    }
    position.recent.push_back(std::move(operation));
  }

  const Pickle& dump_;
  const TorchDumpSource& source_;
  std::map<std::string, std::vector<int>> ranks_;
  std::map<std::string, GroupFacts> groups_;
};

Result<void> check_version(const Pickle& dump) {
  const std::string version = text_of(dump, dump.root(), "version");
  if (version.empty()) {
    return failure(Errc::protocol, "it has no version field");
  }
  if (!version.starts_with("2.")) {
    return failure(Errc::protocol,
                   fmt::format("unsupported format {}; only 2.x is supported", version));
  }
  return {};
}

// Extracts "nccl" from "nccl:all_reduce".
std::string backend_in(const Pickle& dump, const std::vector<const PickleValue*>& entries) {
  const std::string name = entries.empty() ? "" : text_of(dump, *entries[0], "profiling_name");
  const auto colon = name.rfind(':');
  return colon == std::string::npos ? "PyTorch" : name.substr(0, colon);
}

}  // namespace

Result<std::vector<Position>> torch_positions(std::string_view bytes, TorchDumpSource source) {
  const auto dump = Pickle::read(bytes);
  MUSTER_RETURN_IF_ERROR(dump);
  MUSTER_RETURN_IF_ERROR(check_version(*dump));
  const auto entries = elements_of(*dump, dump->find(dump->root(), "entries"));
  source.backend = source.backend.empty() ? backend_in(*dump, entries) : source.backend;
  Groups groups(*dump, source);
  groups.add_members();
  for (const PickleValue* const value : entries) {
    // Without this number, the operations of different ranks cannot be matched.
    if (dump->find(*value, "collective_seq_id") == nullptr) {
      return failure(Errc::protocol, "its entries have no collective_seq_id (an early 2.x format)");
    }
    groups.add(read_entry(*dump, *value));
  }
  return groups.take();
}

}  // namespace muster::hang
