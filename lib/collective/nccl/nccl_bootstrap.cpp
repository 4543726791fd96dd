// SPDX-License-Identifier: Apache-2.0
#include "collective/nccl/nccl_bootstrap.hpp"

#include "base/text.hpp"
#include "collective/nccl/planted.hpp"
#include "rendezvous/client/store.hpp"

#include <fmt/format.h>

#include <cstring>

namespace muster::collective::nccl {
namespace {

// First byte of rank 0's answer.
constexpr char kIdFollows = '=';
constexpr char kWordsFollow = '!';
// How much longer the others wait than rank 0, so that its sentence about who is missing comes.
constexpr Duration kAnswerGrace = std::chrono::seconds(2);

std::string version_key(const Meeting& meeting, int rank) {
  return fmt::format("{}nccl/version/{}", meeting.prefix, rank);
}

std::string answer_key(const Meeting& meeting) {
  return meeting.prefix + "nccl/id";
}

Error of_store(const Meeting& meeting, const muster::Error& error) {
  return wrap(Errc::store, describe(meeting.speaker) + ": exchange of NCCL's id", error);
}

// Rank 0 has waited in vain: who is missing?
Error late(const Meeting& meeting) {
  std::vector<std::string> missing;
  int first = -1;
  for (int rank = 0; rank < meeting.speaker.size; ++rank) {
    const auto here = meeting.store.check({version_key(meeting, rank)});
    if (here && !*here) {
      first = first < 0 ? rank : first;
      missing.push_back(std::to_string(rank));
    }
  }
  return {.code = Errc::timeout,
          .rank = first,
          .epoch = meeting.speaker.epoch,
          .text = fmt::format("{}: of {} ranks, {} did not come to the start of NCCL within {}",
                              describe(meeting.speaker),
                              meeting.speaker.size,
                              missing.empty() ? "some" : "rank " + join(missing, ", "),
                              muster::describe(meeting.patience))};
}

Result<std::string> new_id(const Meeting& meeting, const NcclLibrary& library) {
  ncclUniqueId id = {};
  if (const auto result = library.call.get_unique_id(&id); result != ncclSuccess) {
    return std::unexpected(Error{.code = Errc::nccl,
                                 .rank = 0,
                                 .epoch = meeting.speaker.epoch,
                                 .native = static_cast<int>(result),
                                 .text = fmt::format("{}: ncclGetUniqueId failed: {} (NCCL {}, {})",
                                                     describe(meeting.speaker),
                                                     library.call.get_error_string(result),
                                                     describe_nccl_version(library.version),
                                                     library.path)});
  }
  return std::string(id.internal, sizeof id.internal);
}

// What rank 0 does: the answer, also where it is a failure that all must hear of.
Result<std::string> make_answer(const Meeting& meeting, const NcclLibrary& library) {
  std::vector<std::string> keys;
  keys.reserve(static_cast<std::size_t>(meeting.speaker.size));
  for (int rank = 0; rank < meeting.speaker.size; ++rank) {
    keys.push_back(version_key(meeting, rank));
  }
  const auto words = meeting.store.multi_get(keys, meeting.patience);
  if (!words) {
    return std::unexpected(words.error().code == muster::Errc::timed_out
                               ? late(meeting)
                               : of_store(meeting, words.error()));
  }
  const auto differ = compare_versions(*words);
  if (differ && !planted("versions are not compared")) {
    return kWordsFollow + *differ;
  }
  auto id = new_id(meeting, library);
  if (!id) {
    return kWordsFollow + id.error().text;
  }
  return kIdFollows + *id;
}

Result<ncclUniqueId> read_answer(const Meeting& meeting, const std::string& answer) {
  ncclUniqueId id = {};
  if (answer.size() == 1 + sizeof id.internal && answer.front() == kIdFollows) {
    std::memcpy(id.internal, answer.data() + 1, sizeof id.internal);
    return id;
  }
  const bool words = answer.size() > 1 && answer.front() == kWordsFollow;
  return std::unexpected(
      Error{.code = words ? Errc::mismatch : Errc::store,
            .epoch = meeting.speaker.epoch,
            .text = fmt::format("{}: {}",
                                describe(meeting.speaker),
                                words ? answer.substr(1)
                                      : "what the store holds as NCCL's id has the wrong size")});
}

}  // namespace

namespace {

struct RankWords {
  std::string number;
  std::string version;
  std::string settings;
};

RankWords parts_of(const std::string& words) {
  const auto end = words.find("; ");
  const std::string front = words.substr(0, end);
  const auto blank = front.find(' ');
  return {.number = front.substr(0, blank),
          .version = blank == std::string::npos ? "" : front.substr(blank + 1),
          .settings = end == std::string::npos ? "" : words.substr(end + 2)};
}

}  // namespace

std::optional<std::string> compare_versions(const std::vector<std::string>& words) {
  const RankWords first = parts_of(words[0]);
  for (std::size_t rank = 1; rank < words.size(); ++rank) {
    const RankWords other = parts_of(words[rank]);
    if (other.number != first.number) {
      return fmt::format(
          "ranks have different versions of NCCL: rank 0 has {}, rank {} has {} - "
          "name the same library for all with {}",
          first.version,
          rank,
          other.version,
          kNcclVariable);
    }
    if (other.settings != first.settings) {
      return fmt::format(
          "ranks have different settings for NCCL: rank 0 has {}, rank {} has {} - "
          "set the same variables for all",
          first.settings,
          rank,
          other.settings);
    }
  }
  return std::nullopt;
}

Result<ncclUniqueId> agree_on_id(const Meeting& meeting, const NcclLibrary& library) {
  Store& store = meeting.store;
  const std::string own = fmt::format("{} {} ({}) on {}; {}",
                                      library.version,
                                      describe_nccl_version(library.version),
                                      library.path,
                                      meeting.host,
                                      meeting.settings);
  if (auto told = store.set(version_key(meeting, meeting.speaker.rank), own); !told) {
    return std::unexpected(of_store(meeting, told.error()));
  }
  if (meeting.speaker.rank == 0) {
    auto answer = make_answer(meeting, library);
    const std::string told = answer ? *answer : kWordsFollow + answer.error().text;
    if (auto sent = store.set(answer_key(meeting), told); !sent) {
      return std::unexpected(of_store(meeting, sent.error()));
    }
    return answer ? read_answer(meeting, *answer) : std::unexpected(answer.error());
  }
  const auto answer = store.get(answer_key(meeting), meeting.patience + kAnswerGrace);
  if (!answer && answer.error().code == muster::Errc::timed_out) {
    return std::unexpected(Error{.code = Errc::timeout,
                                 .rank = 0,
                                 .epoch = meeting.speaker.epoch,
                                 .text = fmt::format("{}: rank 0 did not give NCCL's id within {}",
                                                     describe(meeting.speaker),
                                                     muster::describe(meeting.patience))});
  }
  return answer ? read_answer(meeting, *answer)
                : std::unexpected(of_store(meeting, answer.error()));
}

}  // namespace muster::collective::nccl
