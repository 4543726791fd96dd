// SPDX-License-Identifier: Apache-2.0
#include "collective/nccl/nccl_bootstrap.hpp"

#include "base/plural.hpp"
#include "collective/nccl/planted.hpp"
#include "rendezvous/client/store.hpp"

#include <fmt/format.h>

#include <cstring>

namespace muster::collective::nccl {
namespace {

// First byte of rank 0's reply.
constexpr char kIdFollows = '=';
constexpr char kRefusal = '!';
// Extra time for the other ranks, so that rank 0's error about missing ranks still reaches them.
constexpr Duration kAnswerGrace = std::chrono::seconds(2);

std::string version_key(const BootstrapContext& context, int rank) {
  return fmt::format("{}nccl/version/{}", context.prefix, rank);
}

std::string answer_key(const BootstrapContext& context) {
  return context.prefix + "nccl/id";
}

Error of_store(const BootstrapContext& context, const muster::Error& error) {
  return wrap(Errc::store, describe(context.speaker) + ": cannot exchange NCCL's unique id", error);
}

// Called when rank 0 timed out. Returns an error that names the missing ranks.
Error late(const BootstrapContext& context) {
  std::vector<int> missing;
  for (int rank = 0; rank < context.speaker.size; ++rank) {
    const auto here = context.store->check({version_key(context, rank)});
    if (here && !*here) {
      missing.push_back(rank);
    }
  }
  return {.code = Errc::timeout,
          .rank = missing.empty() ? -1 : missing.front(),
          .epoch = context.speaker.epoch,
          .text = fmt::format("{}: {} ranks start NCCL, but {} did not arrive within {}",
                              describe(context.speaker),
                              context.speaker.size,
                              missing.empty() ? "some" : name_ranks(missing),
                              muster::describe(context.timeout))};
}

Result<std::string> new_id(const BootstrapContext& context, const NcclLibrary& library) {
  ncclUniqueId id = {};
  if (const auto result = library.call.get_unique_id(&id); result != ncclSuccess) {
    return std::unexpected(Error{.code = Errc::nccl,
                                 .rank = 0,
                                 .epoch = context.speaker.epoch,
                                 .native = static_cast<int>(result),
                                 .text = fmt::format("{}: ncclGetUniqueId failed: {} (NCCL {}, {})",
                                                     describe(context.speaker),
                                                     library.call.get_error_string(result),
                                                     describe_nccl_version(library.version),
                                                     library.path)});
  }
  return std::string(id.internal, sizeof id.internal);
}

// Runs on rank 0. Returns the reply for all ranks, which may be an error.
Result<std::string> make_answer(const BootstrapContext& context, const NcclLibrary& library) {
  std::vector<std::string> keys;
  keys.reserve(static_cast<std::size_t>(context.speaker.size));
  for (int rank = 0; rank < context.speaker.size; ++rank) {
    keys.push_back(version_key(context, rank));
  }
  const auto reports = context.store->multi_get(keys, context.timeout);
  if (!reports) {
    return std::unexpected(reports.error().code == muster::Errc::timed_out
                               ? late(context)
                               : of_store(context, reports.error()));
  }
  const auto differ = compare_versions(*reports);
  if (differ && !planted("versions are not compared")) {
    return kRefusal + *differ;
  }
  auto id = new_id(context, library);
  if (!id) {
    return kRefusal + id.error().text;
  }
  return kIdFollows + *id;
}

Result<ncclUniqueId> read_answer(const BootstrapContext& context, const std::string& answer) {
  ncclUniqueId id = {};
  if (answer.size() == 1 + sizeof id.internal && answer.front() == kIdFollows) {
    std::memcpy(id.internal, answer.data() + 1, sizeof id.internal);
    return id;
  }
  const bool refused = answer.size() > 1 && answer.front() == kRefusal;
  return std::unexpected(
      Error{.code = refused ? Errc::mismatch : Errc::store,
            .epoch = context.speaker.epoch,
            .text = fmt::format(
                "{}: {}",
                describe(context.speaker),
                refused ? answer.substr(1) : "NCCL's unique id in the store has the wrong size")});
}

}  // namespace

namespace {

struct RankReport {
  std::string number;
  std::string version;
  std::string settings;
};

RankReport parts_of(const std::string& report) {
  const auto end = report.find("; ");
  const std::string front = report.substr(0, end);
  const auto blank = front.find(' ');
  return {.number = front.substr(0, blank),
          .version = blank == std::string::npos ? "" : front.substr(blank + 1),
          .settings = end == std::string::npos ? "" : report.substr(end + 2)};
}

}  // namespace

std::optional<std::string> compare_versions(const std::vector<std::string>& reports) {
  const RankReport first = parts_of(reports[0]);
  for (std::size_t rank = 1; rank < reports.size(); ++rank) {
    const RankReport other = parts_of(reports[rank]);
    if (other.number != first.number) {
      return fmt::format(
          "ranks have different NCCL versions: rank 0 has {}, rank {} has {}. "
          "Set {} to the same library on all ranks",
          first.version,
          rank,
          other.version,
          kNcclVariable);
    }
    if (other.settings != first.settings) {
      return fmt::format(
          "ranks have different NCCL settings: rank 0 has {}, rank {} has {}. "
          "Set the same variables on all ranks",
          first.settings,
          rank,
          other.settings);
    }
  }
  return std::nullopt;
}

Result<ncclUniqueId> agree_on_id(const BootstrapContext& context, const NcclLibrary& library) {
  if (context.speaker.size == 1) {
    const auto id = new_id(context, library);
    return id ? read_answer(context, kIdFollows + *id) : std::unexpected(id.error());
  }
  Store& store = *context.store;
  const std::string own = fmt::format("{} {} ({}) on {}; {}",
                                      library.version,
                                      describe_nccl_version(library.version),
                                      library.path,
                                      context.host,
                                      context.settings);
  if (auto set = store.set(version_key(context, context.speaker.rank), own); !set) {
    return std::unexpected(of_store(context, set.error()));
  }
  if (context.speaker.rank == 0) {
    auto answer = make_answer(context, library);
    const std::string text = answer ? *answer : kRefusal + answer.error().text;
    if (auto sent = store.set(answer_key(context), text); !sent) {
      return std::unexpected(of_store(context, sent.error()));
    }
    return answer ? read_answer(context, *answer) : std::unexpected(answer.error());
  }
  const auto answer = store.get(answer_key(context), context.timeout + kAnswerGrace);
  if (!answer && answer.error().code == muster::Errc::timed_out) {
    return std::unexpected(
        Error{.code = Errc::timeout,
              .rank = 0,
              .epoch = context.speaker.epoch,
              .text = fmt::format("{}: rank 0 did not publish NCCL's unique id within {}",
                                  describe(context.speaker),
                                  muster::describe(context.timeout))});
  }
  return answer ? read_answer(context, *answer)
                : std::unexpected(of_store(context, answer.error()));
}

}  // namespace muster::collective::nccl
