// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/node/rendezvous_node.hpp"

#include "base/clock.hpp"
#include "rendezvous/node/credential_keys.hpp"
#include "rendezvous/node/dialler.hpp"
#include "rendezvous/node/endpoint_binder.hpp"
#include "rendezvous/node/link_sockets.hpp"
#include "rendezvous/node/record_keeper.hpp"
#include "rendezvous/node/store_carrier.hpp"
#include "rendezvous/node/turn_frames.hpp"
#include "rendezvous/round/node_core.hpp"
#include "trust/secure_channel.hpp"

#include <asio/io_context.hpp>
#include <asio/posix/stream_descriptor.hpp>
#include <asio/post.hpp>
#include <asio/steady_timer.hpp>

#include <algorithm>
#include <cerrno>
#include <deque>
#include <type_traits>
#include <utility>

#include <fcntl.h>

namespace muster {
namespace {

// How long to wait for the last messages to reach other nodes.
constexpr Duration kEndTimeout = std::chrono::seconds(1);

// The interval between lookups while no endpoint name has been resolved.
constexpr Duration kNamesAgain = std::chrono::seconds(1);

// Maximum number of polls for input before the deadlines are checked. Each poll handles 256 links,
// so this is enough for 65,536 links.
constexpr int kCatchUpMost = 256;

}  // namespace

// Shared with pending handlers, which do nothing once `open` is false.
struct RendezvousNode::Impl : std::enable_shared_from_this<RendezvousNode::Impl> {
  asio::io_context& loop;
  RendezvousSettings settings;
  NodeSockets unbound;
  NodeOwner& owner;
  NodeCore core;
  std::unique_ptr<CredentialKeys> keys;
  std::unique_ptr<LinkSockets> sockets;
  asio::posix::stream_descriptor watch;
  asio::steady_timer timer;
  asio::steady_timer names_again;
  StoreCarrier carrier;
  RecordKeeper record;
  EndpointBinder binder;
  Dialler dialler;
  std::deque<NodeEvent> queue;
  TurnFrames frames;
  std::optional<NodeEnd> end;
  std::optional<TimePoint> armed_for;
  TimePoint now = steady_now();
  TimePoint end_by{};  // deadline for the last messages
  TimePoint names_by{};
  std::string own_address;
  std::uint16_t own_port = 0;
  int endpoint_fd = -1;
  bool open = true;
  bool begun = false;
  bool in_turn = false;
  bool draining = false;
  bool end_told = false;

  Impl(asio::io_context& on, RendezvousSettings given, NodeSockets before, NodeOwner& whose)
      : loop(on),
        settings(std::move(given)),
        unbound(std::move(before)),
        owner(whose),
        core(settings.core, settings.self, settings.seed),
        watch(on),
        timer(on),
        names_again(on),
        carrier(on, settings.core.terms, settings.self, [this](const auto& work) { turn(work); }),
        record(on,
               settings.record,
               [this](LogLevel level, const auto& text) { owner.log(level, text); }),
        binder(on, settings.core.endpoints, [this](UniqueFd fd) { take_endpoint(std::move(fd)); }),
        dialler(
            on,
            settings.core.endpoints,
            [this](const auto& work) { turn([&] { work(now); }); },
            [this](LinkClosed failed) { push(std::move(failed)); }) {}

  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  ~Impl() { shut(); }

  void shut() {
    open = false;
    if (watch.is_open()) {
      watch.release();
    }
    timer.cancel();
    names_again.cancel();
    record.stop();
    dialler.cancel_all();
    carrier.stop();
    sockets.reset();
  }

  // -- turns: all events of a turn are handled in order and with the same `now` -----------------

  template <class Work>
  void turn(Work work) {
    if (!open) {
      return;
    }
    if (std::exchange(in_turn, true)) {
      work();
      return;
    }
    now = steady_now();
    work();
    sockets->settle(now);
    frames.clear();
    in_turn = false;
    tell_end();
    arm();
  }

  void push(NodeEvent event) {
    queue.push_back(std::move(event));
    drain();
  }

  void drain() {
    if (std::exchange(draining, true)) {
      return;
    }
    NodeEffects effects;
    while (!queue.empty() && !end) {
      const NodeEvent event = std::move(queue.front());
      queue.pop_front();
      core.step(now, event, effects);
      for (const NodeEffect& effect : effects) {
        std::visit([this](const auto& wanted) { carry_out(wanted); }, effect);
      }
      effects.clear();
    }
    draining = false;
  }

  void await_ready() {
    watch.async_wait(asio::posix::stream_descriptor::wait_read,
                     [self = shared_from_this()](const asio::error_code& error) {
                       if (!error && self->open) {
                         self->turn([&self] { self->sockets->serve(self->now); });
                       }
                       if (!error && self->open) {
                         self->await_ready();
                       }
                     });
  }

  // -- time ------------------------------------------------------------------------------------

  [[nodiscard]] std::optional<TimePoint> next_deadline() const {
    std::optional<TimePoint> next = sockets->next_deadline();
    const auto sooner = [&next](std::optional<TimePoint> other) {
      next = next && other ? std::min(*next, *other) : next ? next : other;
    };
    sooner(begun && !end ? core.next_deadline() : std::nullopt);
    sooner(end && !end_told ? std::optional(end_by) : std::nullopt);
    return next;
  }

  // Does not restart a timer that fires before the deadline, because most deadlines are extended
  // before they expire. When such a timer fires, it only checks the deadlines.
  void arm() {
    if (!open) {
      return;
    }
    const auto next = next_deadline();
    if (!next || (armed_for && *armed_for <= *next)) {
      return;
    }
    armed_for = next;
    timer.expires_at(*next);
    timer.async_wait([self = shared_from_this()](const asio::error_code& error) {
      if (!error && self->open) {
        self->armed_for.reset();
        self->turn([&self] { self->tick(); });
      }
    });
  }

  // Reads all pending messages before it checks deadlines: a node whose messages arrived while this
  // process was paused is not silent.
  void tick() {
    for (int i = 0; i < kCatchUpMost && sockets->serve(now); ++i) {
    }
    const auto due = core.next_deadline();
    if (begun && !end && due && *due <= now) {
      push(NodeTick{});
    }
  }

  // -- startup: resolve the endpoints, and check whether they are ours -------------------------

  void prepare() {
    names_by = steady_now() + settings.core.join_timeout;
    if (settings.is_host == false) {
      asio::post(loop, [self = shared_from_this()] { self->turn([&] { self->begin({}); }); });
      return;
    }
    look_up_endpoints();
  }

  void look_up_endpoints() {
    const auto tried = [this] { turn([this] { endpoints_tried(); }); };
    settings.is_host == true ? binder.try_first(tried) : binder.try_enough(tried);
  }

  void endpoints_tried() {
    const bool ours = binder.first().state == EndpointState::ours;
    if (settings.is_host == true && !ours) {
      const auto hosted = binder.host_first_everywhere();
      if (!hosted) {
        finish(EndFailed{hosted.error()});
        return;
      }
    }
    const bool hosts = settings.is_host == true || ours;
    if (hosts || binder.any_known()) {
      begin({.hosts = hosts, .may_host = !hosts && binder.may_have_first()});
    } else if (now >= names_by) {
      finish(EndFailed{Error{Errc::timed_out, binder.trouble()}});
    } else {
      owner.show_roll_call({.call = {}, .trouble = binder.trouble()});
      names_again.expires_after(kNamesAgain);
      names_again.async_wait([self = shared_from_this()](const asio::error_code& error) {
        if (!error && self->open) {
          self->look_up_endpoints();
        }
      });
    }
  }

  void take_endpoint(UniqueFd fd) {
    endpoint_fd = endpoint_fd < 0 ? fd.get() : endpoint_fd;
    sockets->add_listener(std::move(fd));
  }

  void begin(NodeStarted how) {
    begun = true;
    how.memory = record.recall();
    if (how.memory && !how.memory->job_key.empty()) {
      carry_out(UseJobKey{how.memory->job_key});
    }
    const std::string& typed = settings.core.local_addr;
    const bool is_here = how.hosts || binder.first().state == EndpointState::taken;
    const auto found = is_here ? binder.first().address : own_address_in(how.memory);
    if (is_here || !typed.empty() || !found.empty()) {
      open_own(typed.empty() ? found : typed);
    }
    if (!end) {
      push(std::move(how));
    }
  }

  void carry_out(const RecordRound& wanted) { push(record.keep(wanted)); }

  // Another program was using the port of our endpoint and may have released it.
  void carry_out(const BindEndpoint& /*wanted*/) {
    binder.try_all([this] {
      turn([this] {
        if (!end && binder.first().state == EndpointState::ours) {
          if (own_port == 0) {
            open_own(binder.first().address);
          }
          push(EndpointBound{});
        }
      });
    });
  }

  // Runs before the core learns of the first connection, because the core then announces our
  // address.
  void open_own(const std::string& reached_by) {
    auto own = open_own_listener(unbound, settings.core.local_addr, reached_by, settings.ports);
    if (!own) {
      finish(EndFailed{own.error()});
      return;
    }
    own_address = own->address;
    own_port = own->port;
    dialler.set_own_address(own_address);
    sockets->add_listener(std::move(own->fd));
    if (!settings.trust && !keys && !settings.why_no_token.empty() && !is_loopback(own_address)) {
      owner.say(without_token(own_address, settings.why_no_token));
    }
    if (const auto source = SocketAddress::parse(settings.core.local_addr, 0);
        source && is_own_address(settings.core.local_addr)) {
      sockets->set_source(*source);
    }
    push(ListenerKnown{own_address, own_port});
  }

  void take_event(NodeEvent event) {
    if (carrier.take(event)) {
      return;
    }
    if (const auto* opened = std::get_if<LinkOpened>(&event); opened && own_port == 0 && !end) {
      open_own(sockets->local_host(opened->link));
    }
    push(std::move(event));
  }

  // -- effects on the network ------------------------------------------------------------------

  void carry_out(const OpenLink& wanted) { dialler.dial(now, wanted); }

  void carry_out(const SendMessage& wanted) {
    FirstUse* const first = settings.first_use.get();
    auto frame = frames.of(first != nullptr ? first->with_key(wanted.message) : wanted.message);
    if (!frame) {
      owner.say(frame.error().message);
      sockets->close(wanted.link);
      queue.push_back(LinkClosed{wanted.link, LinkEnd::broken, frame.error().message});
      return;
    }
    if (std::holds_alternative<Welcome>(*wanted.message)) {
      keep_job_key();
      sockets->allow_texts(wanted.link);
    } else if (std::holds_alternative<ShowRounds>(*wanted.message)) {
      sockets->allow_lists(wanted.link);
    }
    sockets->send(wanted.link, std::move(*frame));
  }

  void carry_out(const CloseLink& wanted) {
    dialler.cancel(wanted.link);
    sockets->close(wanted.link);
  }

  void carry_out(const UseJobKey& wanted) {
    sockets->use_job_key(wanted.secret);
    keep_job_key();
  }

  void keep_job_key() {
    if (settings.first_use) {
      record.keep_job_key(settings.first_use->shared_secret());
    }
  }

  void carry_out(const HostEndpoints&) { binder.keep_trying(); }

  // -- effects on the agent --------------------------------------------------------------------

  void carry_out(const OpenStore& wanted) { owner.open_store(wanted.round); }

  void carry_out(const RunRound& wanted) {
    RunRound run = wanted;
    run.master_addr = dialler.as_seen_here(run.master_addr);
    const bool had_guests = settings.first_use && settings.first_use->close(*run.round);
    if (had_guests && run.round->id.coordinator == settings.self.id) {
      owner.say(trusted_at_first(own_address, *settings.first_use));
    }
    owner.run_round(run);
  }

  void carry_out(const StopWorkers& wanted) { owner.stop_workers(wanted); }

  void carry_out(const LeaseUntil& wanted) { owner.lease_until(wanted.when); }

  void carry_out(const FenceWorkers& wanted) { owner.fence_workers(wanted.reason); }

  void carry_out(const ShowRollCall& show) { owner.show_roll_call(binder.with_place(show)); }

  void carry_out(const FindOwner& wanted) { owner.find_owner(wanted); }

  void carry_out(const VouchKnown& wanted) { owner.vouch_known(wanted); }

  void carry_out(const HearWaits& wanted) { owner.hear_waits(wanted); }

  void carry_out(const SuspectNode& wanted) { owner.hear_suspect(wanted); }

  void carry_out(const RunMend& wanted) { owner.run_mend(wanted); }

  void carry_out(const RefuseMend& wanted) { owner.refuse_mend(wanted); }

  void carry_out(const SayNode& wanted) { owner.say(wanted.text); }

  template <class Step>
  void carry_out(const Step& wanted) requires std::is_constructible_v<InquiryStep, Step> {
    owner.inquire(wanted);
  }

  // -- shutdown --------------------------------------------------------------------------------

  template <class End>
  void carry_out(const End& wanted) requires std::is_constructible_v<NodeEnd, End> {
    finish(wanted);
  }

  void finish(NodeEnd how) {
    if (end) {
      return;
    }
    record.end(how);
    end = std::move(how);
    end_by = now + kEndTimeout;
    dialler.cancel_all();
    sockets->close_listeners();
    sockets->close_all();
  }

  void tell_end() {
    if (!end || end_told || !(sockets->drained() || now >= end_by)) {
      return;
    }
    end_told = true;
    asio::post(loop, [self = shared_from_this()] {
      if (self->open) {
        self->owner.ended(*self->end);
      }
    });
  }
};

Result<std::unique_ptr<RendezvousNode>> RendezvousNode::start(asio::io_context& loop,
                                                              RendezvousSettings settings,
                                                              NodeSockets sockets,
                                                              NodeOwner& owner) {
  settings.core.records = settings.record && settings.record->is_on();
  auto impl = std::make_shared<Impl>(loop, std::move(settings), std::move(sockets), owner);
  const RendezvousSettings& ours = impl->settings;
  auto opened = LinkSockets::open(
      {.user_timeout = ours.core.lease, .list_body = max_lists_body(ours.core.terms.nodes_max)},
      [raw = impl.get()](NodeEvent event) { raw->take_event(std::move(event)); });
  MUSTER_RETURN_IF_ERROR(opened);
  impl->sockets = std::move(*opened);
  if (ours.credentials != nullptr) {
    const auto turn = [raw = impl.get()](const auto& work) { raw->turn(work); };
    impl->keys = std::make_unique<CredentialKeys>(*ours.credentials, ours.core.terms.job_id, turn);
  }
  impl->sockets->set_job(
      ours.core.terms.job_id, ours.trust.get(), impl->keys.get(), ours.first_use.get());
  impl->sockets->set_notice([raw = impl.get()](const std::string& text) {
    if (!raw->core.is_closing() && !raw->end) {  // otherwise the final error contains the text
      raw->owner.say(text);
    }
  });
  impl->carrier.use(*impl->sockets);
  impl->dialler.use(*impl->sockets);
  impl->watch.assign(impl->sockets->fd());
  impl->await_ready();
  impl->prepare();
  if (ours.trust || ours.first_use || impl->keys) {
    asio::post(loop, prepare_channels);
  }
  return std::unique_ptr<RendezvousNode>(new RendezvousNode(std::move(impl)));
}

RendezvousNode::RendezvousNode(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}

RendezvousNode::~RendezvousNode() {
  impl_->shut();
}

void RendezvousNode::set_admission(Admission* admission) {
  impl_->sockets->set_admission(admission);
}

void RendezvousNode::tell(AgentEvent event) {
  impl_->turn([&] { std::visit([this](auto& told) { impl_->push(std::move(told)); }, event); });
}

void RendezvousNode::check_deadlines() {
  impl_->turn([&] { impl_->push(NodeTick{}); });
}

const std::string& RendezvousNode::address() const {
  return impl_->own_address;
}

StoreCarrier* RendezvousNode::carrier() {
  return &impl_->carrier;
}

std::uint16_t RendezvousNode::port() const {
  return impl_->own_port;
}

bool RendezvousNode::has_endpoint() const {
  return impl_->endpoint_fd >= 0;
}

Result<std::unique_ptr<StoreServer>> RendezvousNode::open_store_on_endpoint() {
  const int endpoint = impl_->endpoint_fd;
  if (endpoint < 0) {
    return failure(Errc::system,
                   "cannot open the workers' store: the endpoint is not an address of this "
                   "node");
  }
  UniqueFd shared(::fcntl(endpoint, F_DUPFD_CLOEXEC, 0));
  if (!shared) {
    return std::unexpected(system_error("cannot share the endpoint's socket", errno));
  }
  auto store = StoreServer::open(impl_->loop, std::move(shared));
  if (store) {
    impl_->sockets->lend_listener(endpoint, true);
    (*store)->set_adopter([weak = std::weak_ptr(impl_)](UniqueFd fd, const std::string& bytes) {
      if (const auto impl = weak.lock()) {
        impl->turn([&] { impl->sockets->adopt(impl->now, std::move(fd), bytes); });
      }
    });
  }
  return store;
}

void RendezvousNode::store_closed() {
  if (impl_->endpoint_fd >= 0) {
    impl_->sockets->lend_listener(impl_->endpoint_fd, false);
  }
}

Result<void> RendezvousNode::forget(const std::string& name) {
  if (auto why = impl_->core.why_not_forget(name); !why.empty()) {
    return failure(Errc::not_possible, std::move(why));
  }
  impl_->turn([&] { impl_->push(ForgetNode{name}); });
  return {};
}

std::string RendezvousNode::describe() const {
  return impl_->core.describe();
}

}  // namespace muster
