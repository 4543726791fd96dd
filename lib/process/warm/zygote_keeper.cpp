// SPDX-License-Identifier: Apache-2.0
#include "process/warm/zygote_keeper.hpp"

#include "process/start/inherited_state.hpp"
#include "process/tree/descendants.hpp"

namespace muster {

void ZygoteKeeper::prepare(const ProcessSpec& spec, ZygoteObserver& observer) {
  observer_ = &observer;
  spec_ = spec;
  is_awaited_ = true;
  if (!proc_is_ours()) {
    lose("/proc does not show this pid namespace");
  } else if (!zygote_) {
    start();
  } else if (!is_asked_) {
    is_asked_ = true;
    zygote_->ask();
    limit(kLookTimeout);
  }
}

void ZygoteKeeper::start() {
  auto started = Zygote::start(
      poller_, spec_, inherited_state(), !is_awaited_, [this](const Zygote::News& news) {
        take(news);
      });
  if (!started) {
    lose(started.error().message);
    return;
  }
  zygote_ = std::move(*started);
  is_asked_ = true;
  sweeper_.spare(zygote_->pid());
  limit(kImportTimeout);
}

void ZygoteKeeper::limit(Duration timeout) {
  answer_timer_.expires_after(timeout);
  answer_timer_.async_wait(
      [this, timeout, alive = std::weak_ptr(alive_)](const std::error_code& error) {
        if (!error && !alive.expired()) {
          lose("the --warm parent process did not respond within " + describe(timeout));
        }
      });
}

void ZygoteKeeper::note_reaped(pid_t pid) {
  if (zygote_ && zygote_->pid() == pid) {
    zygote_->note_reaped();  // its closed connection will trigger the cleanup
  }
}

void ZygoteKeeper::take(const Zygote::News& news) {
  is_asked_ = false;
  switch (news.what) {
    case Zygote::News::What::ready:
      is_awaited_ = false;
      answer_timer_.cancel();
      observer_->on_zygote_ready();
      return;
    case Zygote::News::What::stale:
      zygote_.reset();
      observer_->on_zygote_replaced(news.detail);
      start();
      return;
    case Zygote::News::What::refused:
      lose(news.detail);
      return;
    case Zygote::News::What::unknown:
      zygote_.reset();
      answer_timer_.cancel();
      observer_->on_unknown_module(news.detail);
      return;
    case Zygote::News::What::ended:
      lose("the --warm parent process has exited");
      return;
  }
}

void ZygoteKeeper::lose(const std::string& why) {
  zygote_.reset();
  is_asked_ = false;
  answer_timer_.cancel();
  observer_->on_zygote_lost(why);
}

std::optional<pid_t> ZygoteKeeper::fork(const ProcessSpec& spec, const ChildStreams& streams) {
  if (!zygote_) {
    return std::nullopt;
  }
  const auto pid = zygote_->fork(spec, streams);
  if (!pid) {
    lose(pid.error().message);
    return std::nullopt;
  }
  return *pid;
}

}  // namespace muster
