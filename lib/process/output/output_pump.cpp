// SPDX-License-Identifier: Apache-2.0
#include "process/output/output_pump.hpp"

#include "base/check.hpp"
#include "base/logger.hpp"
#include "base/plural.hpp"
#include "base/printable.hpp"

#include <climits>
#include <fmt/core.h>

#include <algorithm>
#include <cerrno>

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

namespace muster {
namespace {

constexpr std::size_t kChunkBytes = std::size_t{128} * 1024;
constexpr int kPipeBytes = 256 * 1024;
// The kernel allows each user 64 MiB of pipe buffers before it shrinks new pipes. 16 x 256 KiB is a
// small part of that.
constexpr std::size_t kWidePipesMax = 16;
constexpr rlim_t kDescriptorsUsual = 1024;

// Colours that are legible on dark and light backgrounds.
std::string coloured(const std::string& prefix, int local_rank) {
  constexpr std::array kColours = {36, 33, 32, 35, 34, 31, 96, 93, 92, 95, 94, 91};
  const auto colour = kColours[static_cast<std::size_t>(local_rank) % kColours.size()];
  return prefix.empty() ? prefix : fmt::format("\x1b[{}m{}\x1b[0m", colour, prefix);
}

}  // namespace

OutputPump::OutputPump(Poller& poller, Console& console, bool colours)
    : poller_(poller),
      console_(console),
      colours_(colours),
      follower_(poller, [this](OutputSource& source) { busy_.insert(&source); }),
      log_space_(poller, [this](const std::string& folder, int why) { tell_full(folder, why); }) {
  console_.set_on_room([this] { resume_paused(); });
  rlimit limit{};
  descriptors_ = ::getrlimit(RLIMIT_NOFILE, &limit) == 0 ? limit.rlim_cur : kDescriptorsUsual;
}

OutputPump::~OutputPump() {
  for (const auto& source : sources_) {
    poller_.forget(source->fd());
  }
}

Result<int> OutputPump::null_fd() {
  if (!null_) {
    null_ = UniqueFd(::open("/dev/null", O_RDWR | O_CLOEXEC));
  }
  if (!null_) {
    return std::unexpected(system_error("cannot open /dev/null", errno));
  }
  return null_.get();
}

Result<int> OutputPump::empty_input() {
  if (auto null = null_fd()) {
    return null;
  }
  // There is no /dev here (an empty chroot). A pipe without a writer also reads as end of file.
  if (!empty_input_) {
    auto pipe = make_pipe();
    MUSTER_RETURN_IF_ERROR(pipe);
    empty_input_ = std::move(pipe->read);
  }
  return empty_input_.get();
}

Result<int> OutputPump::open_stream(int local_rank, int stream, const OutputPlan& plan) {
  MUSTER_CHECK(local_rank >= 0);
  MUSTER_CHECK(stream == 1 || stream == 2);
  MUSTER_CHECK(plan.kind != OutputKind::file || !plan.path.empty());
  files_.erase({local_rank, stream});
  if (stream == 2) {
    tails_.erase(local_rank);
  }
  switch (plan.kind) {
    case OutputKind::inherit:
      return -1;
    case OutputKind::discard:
      return null_fd();
    case OutputKind::capture:
    case OutputKind::keep:
      return capture(setup_for(local_rank, stream, plan));
    case OutputKind::joined:
      return join_output(local_rank);
    case OutputKind::file:
      break;
  }
  return write_file(setup_for(local_rank, stream, plan), plan);
}

OutputSource::Setup OutputPump::setup_for(int local_rank, int stream, const OutputPlan& plan) {
  OutputSource::Setup setup;
  setup.local_rank = local_rank;
  setup.stream = stream;
  setup.sink = &console_.sink(stream);
  const bool terminal = setup.sink->is_terminal();
  setup.style.prefix = terminal && colours_ ? coloured(plan.prefix, local_rank) : plan.prefix;
  setup.style.terminal = terminal;
  setup.is_shown = plan.kind != OutputKind::keep;
  if (plan.fold == Fold::always || (plan.fold == Fold::on_terminal && terminal)) {
    setup.fold = &folded(*setup.sink);
    setup.rank = plan.rank;
  }
  setup.hangs_up = plan.hangs_up;
  setup.prompts = plan.prompts;
  setup.keeps_tail = stream == 2 && plan.kind != OutputKind::file;
  setup.filtered_style = {.prefix = plan.prefix, .filters = plan.filters, .terminal = false};
  return setup;
}

FoldedSink& OutputPump::folded(ConsoleSink& sink) {
  return folds_.try_emplace(&sink, poller_, sink, colours_ && sink.is_terminal()).first->second;
}

// Output may use half of our descriptors; the store's connections and other parts need the rest.
int OutputPump::scarce_from() const {
  return static_cast<int>(std::min<rlim_t>(descriptors_ / 2, INT_MAX));
}

// If no descriptor is free, a worker inherits our own stream. Lines may then be interleaved, and
// reports do not contain the worker's last lines, but the job runs.
Result<int> OutputPump::let_through(int local_rank) {
  if (!std::exchange(reported_scarce_, true)) {
    log_warning(
        fmt::format("the limit of {} open files (ulimit -n) is too low to forward "
                    "the output of local rank {} and above: it goes to the console "
                    "directly",
                    descriptors_,
                    local_rank));
  }
  return -1;
}

Result<int> OutputPump::capture(OutputSource::Setup setup) {
  auto pipe = make_pipe();
  if (!pipe || pipe->write.get() >= scarce_from()) {
    return let_through(setup.local_rank);
  }
  MUSTER_RETURN_IF_ERROR(set_nonblocking(pipe->read.get()));
  if (sources_.size() < kWidePipesMax) {
    ::fcntl(pipe->read.get(), F_SETPIPE_SZ, kPipeBytes);
  }
  if (setup.is_shown) {
    setup.sink->note_unfiled();
  }
  setup.kind = OutputSource::Kind::pipe;
  setup.fd = std::move(pipe->read);
  setup.on_ready = [this](OutputSource& source) { read_pipe(source); };
  add(std::move(setup));
  OutputSource& source = *sources_.back();
  MUSTER_RETURN_IF_ERROR(poller_.watch_input(source.fd(), source));
  return child_fds_.emplace_back(std::move(pipe->write)).get();
}

// If standard output has no pipe (no descriptor was free), both streams are inherited.
Result<int> OutputPump::join_output(int local_rank) {
  OutputSource* const output = captured(local_rank, 1);
  if (output == nullptr) {
    return -1;
  }
  output->keep_tail();
  return child_fds_.back().get();
}

Result<int> OutputPump::write_file(OutputSource::Setup setup, const OutputPlan& plan) {
  auto file = open_output_file(plan.path);
  MUSTER_RETURN_IF_ERROR(file);
  setup.file = std::make_shared<WorkerFile>(plan.path, file->get(), scarce_from());
  files_[{setup.local_rank, setup.stream}] = setup.file;
  log_space_.note_file(plan.path);
  const int given = child_fds_.emplace_back(std::move(*file)).get();
  if (!plan.tee) {
    setup.file->close_if_sparing();
    return given;
  }
  if (!setup.file->open() && errno != EMFILE) {
    return std::unexpected(system_error("cannot open '" + plan.path + "' for reading", errno));
  }
  if (!plan.filtered_path.empty()) {
    auto filtered = filtered_file(plan.filtered_path);
    MUSTER_RETURN_IF_ERROR(filtered);
    setup.filtered = *filtered;
  }
  setup.kind = OutputSource::Kind::file;
  add(std::move(setup));
  busy_.insert(sources_.back().get());  // the first turn finds no data and arms the watch
  return given;
}

Result<SharedFile*> OutputPump::filtered_file(const std::string& path) {
  if (const auto found = filtered_.find(path); found != filtered_.end()) {
    return &found->second;
  }
  auto file = open_output_file(path);
  MUSTER_RETURN_IF_ERROR(file);
  return &filtered_.emplace(path, SharedFile{std::move(*file), {}}).first->second;
}

void OutputPump::add(OutputSource::Setup setup) {
  alone_decided_ = false;
  sources_.push_back(std::make_unique<OutputSource>(std::move(setup)));
}

void OutputPump::close_child_side(int local_rank, pid_t pid) {
  child_fds_.clear();
  for (const auto& source : sources_) {
    if (source->setup().local_rank == local_rank) {
      source->set_pid(pid);
    }
  }
  for (const auto& [place, file] : files_) {
    if (place.first == local_rank) {
      file->set_writer(pid, place.second);
    }
  }
}

// A captured stream is not split into lines if it has no prefix and no other stream uses the
// console.
void OutputPump::decide_who_is_alone() {
  alone_decided_ = true;
  for (const auto& source : sources_) {
    const auto same_sink = std::ranges::count_if(sources_, [&](const auto& other) {
      return other->setup().is_shown && &other->sink() == &source->sink();
    });
    if (same_sink == 1 && source->setup().style.prefix.empty() &&
        source->setup().kind == OutputSource::Kind::pipe) {
      source->pass_everything();
    }
  }
}

// Returns the number of bytes read; 0 at end of file; -1 if no data is available for now.
long OutputPump::read_chunk(OutputSource& source, std::size_t limit) {
  if (!alone_decided_) {
    decide_who_is_alone();
  }
  if (!chunk_) {
    chunk_ = std::make_unique_for_overwrite<char[]>(kChunkBytes);
  }
  MUSTER_CHECK(limit > 0);
  const auto count = source.read(chunk_.get(), std::min(limit, kChunkBytes));
  note_lost(source);
  if (count > 0) {
    bytes_read_ += static_cast<std::uint64_t>(count);
    source.take(std::string_view(chunk_.get(), static_cast<std::size_t>(count)));
  }
  return count;
}

void OutputPump::read_pipe(OutputSource& source) {
  if (!source.has_room()) {
    poller_.forget(source.fd());
    paused_.insert(&source);
    return;
  }
  const auto count = read_chunk(source, kChunkBytes);
  if (count == 0) {
    poller_.forget(source.fd());
    source.finish();
  } else if (count < static_cast<long>(kChunkBytes)) {
    source.drained();
  }
  if (source.setup().hangs_up && source.sink().is_closed()) {
    poller_.forget(source.fd());
    source.hang_up();
  }
}

// True if more data may be available immediately.
bool OutputPump::read_file(OutputSource& source) {
  if (!source.sink().has_room()) {
    static_cast<void>(source.setup().file->written());  // to detect a truncation in time
    return false;
  }
  if (!source.open()) {
    return false;
  }
  if (read_chunk(source, kChunkBytes) == static_cast<long>(kChunkBytes)) {
    return true;
  }
  follower_.arm(source);
  log_space_.note_growth();
  if (read_chunk(source, kChunkBytes) > 0) {
    return true;  // the file grew before the watch was armed
  }
  busy_.erase(&source);
  source.drained();
  source.close_if_sparing();
  return false;
}

bool OutputPump::turn() {
  bool more = false;
  for (OutputSource* source : std::set<OutputSource*>(busy_)) {
    more = read_file(*source) || more;
  }
  tell_lost();
  return more;
}

void OutputPump::note_lost(OutputSource& source) {
  const auto lost = source.setup().file == nullptr ? 0 : source.setup().file->take_lost();
  if (lost > 0) {
    lost_bytes_ += lost;
    lost_file_ = source.setup().file->path();
    source.sink().note_unfiled();
  }
}

// Reports once for all files that were truncated at about the same time.
void OutputPump::tell_lost() {
  if (const auto lost = std::exchange(lost_bytes_, 0); lost > 0) {
    log_warning(
        fmt::format("'{}' was truncated before muster had read it all: at least {} bytes of the "
                    "workers' output are missing from the console. Rotate logs by renaming them",
                    printable(lost_file_),
                    lost));
  }
}

// Reports failed writes to filtered files, which receive copies of --tee lines that match a filter.
void OutputPump::tell_unfiltered() {
  for (const auto& [path, file] : filtered_) {
    if (file.why != 0) {
      log_warning(fmt::format("cannot write '{}': {}; lost: {}",
                              printable(path),
                              errno_text(file.why),
                              counted(file.lost_lines, "line")));
    }
  }
}

// The amount of lost output is unknown, because the workers write the files themselves.
void OutputPump::tell_full(const std::string& folder, int why) {
  log_warning(
      fmt::format("cannot write log files to '{}': {}; worker output may be "
                  "missing there and on the console",
                  printable(folder),
                  errno_text(why)));
}

void OutputPump::resume_paused() {
  for (OutputSource* source : std::exchange(paused_, {})) {
    // A pipe that can no longer be watched is read at the end of the attempt.
    [[maybe_unused]] const auto watched = poller_.watch_input(source->fd(), *source);
  }
}

std::optional<std::uint64_t> OutputPump::output_bytes(int local_rank) const {
  std::optional<std::uint64_t> out;
  for (const auto& source : sources_) {
    if (source->setup().local_rank == local_rank &&
        source->setup().kind == OutputSource::Kind::pipe) {
      out = out.value_or(0) + source->taken();
    }
  }
  for (const auto& [place, file] : files_) {
    if (place.first == local_rank) {
      out = out.value_or(0) + file->written();
    }
  }
  return out;
}

OutputSource* OutputPump::captured(int local_rank, int stream) {
  for (const auto& source : sources_) {
    const auto& setup = source->setup();
    if (setup.local_rank == local_rank && setup.stream == stream &&
        setup.kind == OutputSource::Kind::pipe) {
      return source.get();
    }
  }
  return nullptr;
}

// The captured standard error, or the pipe that both streams share.
OutputSource* OutputPump::kept_stderr(int local_rank) {
  OutputSource* const error = captured(local_rank, 2);
  OutputSource* const source = error != nullptr ? error : captured(local_rank, 1);
  return source != nullptr && source->setup().keeps_tail ? source : nullptr;
}

std::string OutputPump::stderr_tail(int local_rank) {
  if (const auto file = files_.find({local_rank, 2}); file != files_.end()) {
    return tail_of(*file->second);
  }
  if (OutputSource* const source = kept_stderr(local_rank)) {
    // A pipe holds little data, so it is read to its end even if the console is full.
    for (auto left = source->available(); left > 0;) {
      const auto count = read_chunk(*source, left);
      left -= static_cast<std::size_t>(std::clamp<long>(count, 0, static_cast<long>(left)));
      left = count > 0 ? left : 0;
    }
    return source->tail();
  }
  const auto found = tails_.find(local_rank);
  return found == tails_.end() ? "" : found->second;
}

// Reads only the data that is available now, so that a worker that keeps writing cannot block us.
void OutputPump::drain(OutputSource& source, ConsoleWait& wait) {
  auto left = source.open() ? source.available() : 0;
  while (left > 0) {
    if (source.setup().is_shown && !source.sink().wait_for_room(wait, false)) {
      skip(source, left);
      return;
    }
    const auto count = read_chunk(source, left);
    if (count <= 0) {
      return;
    }
    left -= static_cast<std::size_t>(count);
  }
}

// The console accepts no more data. Drops the output to limit memory use, and counts it. The data
// is still read if a filtered file or a report needs it.
void OutputPump::skip(OutputSource& source, std::size_t bytes) {
  source.hide();
  if (!source.is_read_in_full()) {
    source.setup().file->skip(bytes);
    source.sink().note_unshown(bytes);
    return;
  }
  for (long count = 1; bytes > 0 && count > 0;) {
    count = read_chunk(source, bytes);
    bytes -= static_cast<std::size_t>(std::clamp<long>(count, 0, static_cast<long>(bytes)));
  }
}

void OutputPump::close(OutputSource& source, ConsoleWait& wait) {
  poller_.forget(source.fd());
  drain(source, wait);
  source.finish();
  source.close_if_sparing();
  if (source.setup().keeps_tail) {
    tails_[source.setup().local_rank] = source.tail();
  }
}

void OutputPump::show_folded() {
  for (auto& [sink, fold] : folds_) {
    fold.show_all();
  }
}

void OutputPump::close_streams(int local_rank) {
  ConsoleWait wait{.left = Duration{}, .interrupt_fd = -1};
  for (const auto& source : sources_) {
    if (source->setup().local_rank == local_rank) {
      paused_.erase(source.get());  // close() may make room on the console
      close(*source, wait);
      follower_.forget(*source);
      busy_.erase(source.get());
    }
  }
  std::erase_if(sources_,
                [&](const auto& source) { return source->setup().local_rank == local_rank; });
  show_folded();
  tell_lost();
}

void OutputPump::finish(ConsoleWait& wait) {
  paused_.clear();
  for (const auto& source : sources_) {
    close(*source, wait);
  }
  show_folded();
  tell_lost();
  tell_unfiltered();
  log_space_.check();
  console_.write_all(wait);
  follower_.forget_all();
  busy_.clear();
  sources_.clear();
  folds_.clear();
  filtered_.clear();
}

}  // namespace muster
