// SPDX-License-Identifier: Apache-2.0
#include "remote/rsh_child.hpp"

#include "process/start/inherited_state.hpp"
#include "process/start/spawn.hpp"

#include <array>
#include <cerrno>
#include <csignal>
#include <utility>

#include <unistd.h>

namespace muster {
namespace {

constexpr std::size_t kRshReadBytes = std::size_t{64} * 1024;
constexpr int kReadsInARow = 8;  // limit per turn, for fairness to other connections
constexpr std::size_t kTailBytes = std::size_t{8} * 1024;

}  // namespace

RshChild::RshChild(Poller& poller, RshObserver& observer, Place place)
    : poller_(poller), observer_(observer), place_(std::move(place)) {
  input_port_.act = [this] { write_queue(); };
  output_port_.act = [this] { read_output(); };
  error_port_.act = [this] { read_error(); };
}

RshChild::~RshChild() {
  for (const UniqueFd* const fd : {&input_, &output_, &error_}) {
    if (*fd) {
      poller_.forget(fd->get());
    }
  }
}

Result<std::unique_ptr<RshChild>> RshChild::start(Poller& poller,
                                                  RshObserver& observer,
                                                  Place place) {
  std::unique_ptr<RshChild> child(new RshChild(poller, observer, std::move(place)));
  MUSTER_RETURN_IF_ERROR(child->spawn());
  return child;
}

// Starts the remote shell in a separate session, so that it cannot prompt on our terminal and does
// not receive Ctrl-C.
Result<void> RshChild::spawn() {
  std::array<PipeEnds, 3> pipes;
  for (PipeEnds& pipe : pipes) {
    auto made = make_pipe();
    MUSTER_RETURN_IF_ERROR(made);
    pipe = std::move(*made);
  }
  ProcessSpec spec;
  spec.argv = place_.argv;
  spec.environment = place_.environment;
  const ChildStreams streams{pipes[0].read.get(), pipes[1].write.get(), pipes[2].write.get()};
  const auto pid = spawn_process(spec, streams, inherited_state());
  MUSTER_RETURN_IF_ERROR(pid);
  pid_ = *pid;
  input_ = std::move(pipes[0].write);
  output_ = std::move(pipes[1].read);
  error_ = std::move(pipes[2].read);
  for (const UniqueFd* const fd : {&input_, &output_, &error_}) {
    if (auto set = set_nonblocking(fd->get()); !set) {
      return set;
    }
  }
  if (auto watched = poller_.watch_input(output_.get(), output_port_); !watched) {
    return watched;
  }
  return poller_.watch_input(error_.get(), error_port_);
}

void RshChild::send(const Frame& frame) {
  if (input_ && !input_ends_) {
    append_frame(queue_, frame);
    write_queue();
  }
}

void RshChild::close_input() {
  input_ends_ = true;
  if (input_) {
    write_queue();
  }
}

void RshChild::write_queue() {
  while (!queue_.empty()) {
    const auto count = ::write(input_.get(), queue_.data(), queue_.size());
    if (count < 0 && errno == EINTR) {
      continue;
    }
    if (count < 0 && errno == EAGAIN) {
      if (!std::exchange(queue_watched_, true)) {
        [[maybe_unused]] const auto watched = poller_.watch_room(input_.get(), input_port_);
      }
      return;
    }
    if (count < 0) {
      queue_.clear();  // the process has exited; this is reported when it is reaped
      input_ends_ = true;
      break;
    }
    queue_.erase(0, static_cast<std::size_t>(count));
  }
  if (std::exchange(queue_watched_, false)) {
    poller_.forget(input_.get());
  }
  if (input_ends_) {
    input_.reset();
  }
}

void RshChild::read_output() {
  std::array<char, kRshReadBytes> bytes;
  for (int i = 0; i < kReadsInARow && output_; ++i) {
    const auto count = ::read(output_.get(), bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) {
      continue;
    }
    if (count < 0 && errno == EAGAIN && !status_) {
      return;
    }
    if (count <= 0) {
      close_output();  // even if another process still has the pipe open
      break;
    }
    frames_.feed({bytes.data(), static_cast<std::size_t>(count)});
    tell_frames();
  }
  if (status_ && output_) {
    read_output();
  }
  look_gone();
}

void RshChild::close_output() {
  poller_.forget(output_.get());
  output_.reset();
  close_input();
}

void RshChild::read_error() {
  std::array<char, kTailBytes> bytes;
  while (error_) {
    const auto count = ::read(error_.get(), bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) {
      continue;
    }
    if (count < 0 && errno == EAGAIN) {
      return;
    }
    if (count <= 0) {
      poller_.forget(error_.get());
      error_.reset();
      return;
    }
    error_tail_.append(bytes.data(), static_cast<std::size_t>(count));
    if (error_tail_.size() > 2 * kTailBytes) {
      error_tail_.erase(0, error_tail_.size() - kTailBytes);
    }
  }
}

void RshChild::tell_frames() {
  while (failure_.empty()) {
    const auto frame = frames_.next();
    if (!frame) {
      fail(frame.error().message);
      return;
    }
    if (!*frame) {
      return;
    }
    if ((*frame)->host < place_.branch.head || (*frame)->host >= place_.branch.end) {
      fail("received a frame for a host in another branch of the launch tree");
      return;
    }
    observer_.on_frame(*this, **frame);
  }
}

void RshChild::fail(const std::string& why) {
  if (failure_.empty()) {
    failure_ = why;
    if (!status_) {
      ::kill(pid_, SIGKILL);
    }
  }
}

void RshChild::reaped(ExitStatus status) {
  status_ = status;
  read_error();
  if (output_) {
    read_output();
  } else {
    look_gone();
  }
}

void RshChild::look_gone() {
  if (status_ && !output_ && !gone_) {
    gone_ = true;
    observer_.on_gone(*this);
  }
}

RshEnd RshChild::end() const {
  RshEnd end{
      place_.name, place_.argv, status_.value_or(ExitStatus{}), failure_, frames_.greeted(), 0};
  end.behind = place_.branch.end - place_.branch.head - 1;
  if (end.last_line.empty()) {
    end.last_line = last_line_of(error_tail_);
  }
  if (end.last_line.empty() && !frames_.greeted()) {
    end.last_line = last_line_of(frames_.noise());
  }
  return end;
}

}  // namespace muster
