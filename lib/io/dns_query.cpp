// SPDX-License-Identifier: Apache-2.0
#include "io/dns_query.hpp"

#include "base/fd.hpp"
#include "base/text.hpp"
#include "io/socket_address.hpp"

#include <ares.h>
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include <netdb.h>
#include <sys/epoll.h>
#include <sys/time.h>

namespace muster {
namespace {

constexpr std::size_t kNameBytesMax = 253;  // RFC 1035

// Some servers drop only AAAA or only A queries. Once one query has returned addresses, wait at
// most this long for the other query.
constexpr Duration kSecondAnswerTimeout = std::chrono::milliseconds(300);

// Timeout for the first try of each server. It doubles with each further try.
constexpr int kServerTimeoutMilliseconds = 1000;
constexpr int kTries = 4;

// RFC 6761: these names always mean this host and are never sent to a server.
bool is_localhost(std::string_view name) {
  std::string lower = to_lower(name);
  if (lower.ends_with('.')) {
    lower.pop_back();
  }
  return lower == "localhost" || lower.ends_with(".localhost");
}

bool is_name(const std::string& name) {
  const auto fits = [](unsigned char c) { return c > ' ' && c < 0x7f && c != '/' && c != ':'; };
  return !name.empty() && name.size() <= kNameBytesMax && std::ranges::all_of(name, fits);
}

struct Answer {
  bool over = false;
  int status = ARES_SUCCESS;
  Addresses addresses;
};

void take_answer(void* context, int status, int /*timeouts*/, ares_addrinfo* found) {
  auto& answer = *static_cast<Answer*>(context);
  answer.over = true;
  answer.status = status;
  for (const auto* node = found != nullptr ? found->nodes : nullptr; node != nullptr;
       node = node->ai_next) {
    const auto address = SocketAddress::copy_of(*node->ai_addr);
    if (address && std::ranges::find(answer.addresses, address->host()) == answer.addresses.end()) {
      answer.addresses.push_back(address->host());
    }
  }
  if (found != nullptr) {
    ares_freeaddrinfo(found);
  }
}

void ask(ares_channel channel, const std::string& name, int family, Answer& answer) {
  ares_addrinfo_hints hints{};
  hints.ai_family = family;
  hints.ai_flags = ARES_AI_NOSORT;  // keep the server's order (round robin)
  ares_getaddrinfo(channel, name.c_str(), nullptr, &hints, take_answer, &answer);
}

// IPv4 comes first because it works on every cluster, even for names with addresses of both IP
// versions.
void put_ipv4_first(Addresses& addresses) {
  std::ranges::stable_partition(
      addresses, [](const std::string& address) { return address.find(':') == std::string::npos; });
}

// Converts the c-ares status of a failed lookup to our error.
Error no_answer_error(const std::string& name, int status) {
  switch (status) {
    case ARES_ENOTFOUND:
    case ARES_ENODATA:
      return {Errc::not_found,
              fmt::format("cannot resolve '{}': no such name in /etc/hosts or DNS. Check the "
                          "spelling or use a numeric address",
                          name)};
    case ARES_EBADNAME:
      return {Errc::usage, fmt::format("cannot resolve '{}': not a host name", name)};
    case ARES_ECONNREFUSED:
      return {Errc::unreachable,
              fmt::format("cannot resolve '{}': not in /etc/hosts, and no DNS server in "
                          "/etc/resolv.conf is reachable. Use a numeric address",
                          name)};
    case ARES_ETIMEOUT:
    case ARES_ECANCELLED:
      return {Errc::timed_out,
              fmt::format("cannot resolve '{}': not in /etc/hosts, and the DNS servers in "
                          "/etc/resolv.conf did not respond in time. Use a numeric address",
                          name)};
    default:
      return {Errc::unreachable,
              fmt::format(
                  "cannot resolve '{}': {}. Use a numeric address", name, ares_strerror(status))};
  }
}

}  // namespace

struct DnsQuery::Impl {
  std::string name;
  TimePoint give_up;
  UniqueFd set;
  ares_channel channel = nullptr;
  Answer ipv4;
  Answer ipv6;
  std::optional<Result<Addresses>> result;

  Impl(std::string the_name, TimePoint until) : name(std::move(the_name)), give_up(until) {}

  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  ~Impl() { close_channel(); }

  void close_channel() {
    if (channel != nullptr) {
      ares_destroy(std::exchange(channel, nullptr));  // this calls take_answer for pending queries
    }
  }

  void fail(Error error) { result.emplace(std::unexpected(std::move(error))); }

  // Keeps the epoll set in sync with the sockets that c-ares has open.
  static void watch(void* self, ares_socket_t socket, int readable, int writable) {
    const int set = static_cast<Impl*>(self)->set.get();
    epoll_event event{};
    event.events = (readable != 0 ? EPOLLIN : 0U) | (writable != 0 ? EPOLLOUT : 0U);
    event.data.fd = socket;
    if (event.events == 0) {
      ::epoll_ctl(set, EPOLL_CTL_DEL, socket, nullptr);
    } else if (::epoll_ctl(set, EPOLL_CTL_MOD, socket, &event) != 0) {
      ::epoll_ctl(set, EPOLL_CTL_ADD, socket, &event);
    }
  }

  // `lookups` is 'f' for /etc/hosts or 'b' for DNS. Always set it: c-ares compares only the first
  // letter of each module in nsswitch.conf, so an unknown module could change the lookup order.
  int open_channel(const char* lookups) {
    close_channel();
    std::string order = lookups;
    ares_options options{};
    options.lookups = order.data();
    options.timeout = kServerTimeoutMilliseconds;
    options.tries = kTries;
    options.sock_state_cb = &Impl::watch;
    options.sock_state_cb_data = this;
    return ares_init_options(
        &channel,
        &options,
        ARES_OPT_LOOKUPS | ARES_OPT_TIMEOUTMS | ARES_OPT_TRIES | ARES_OPT_SOCK_STATE_CB);
  }

  // True if the query is complete.
  bool answer_without_servers() {
    if (is_numeric_address(name)) {
      result.emplace(Addresses{name});
    } else if (!is_name(name)) {
      fail({Errc::usage, fmt::format("cannot resolve '{}': not a host name", name)});
    } else if (is_localhost(name)) {
      result.emplace(Addresses{"127.0.0.1", "::1"});
    } else if (const int status = open_channel("f"); status != ARES_SUCCESS) {
      fail(no_answer_error(name, status));
    } else {
      Answer hosts;
      ask(channel, name, AF_UNSPEC, hosts);
      close_channel();
      if (!hosts.addresses.empty()) {
        put_ipv4_first(hosts.addresses);
        result.emplace(std::move(hosts.addresses));
      }
    }
    return result.has_value();
  }

  // Sends separate A and AAAA queries, so that one answer is not lost if the server drops the other
  // query.
  void ask_servers() {
    set = UniqueFd(::epoll_create1(EPOLL_CLOEXEC));
    if (!set) {
      fail(system_error(fmt::format("cannot resolve '{}'", name), errno));
      return;
    }
    if (const int status = open_channel("b"); status != ARES_SUCCESS) {
      fail(no_answer_error(name, status));
      return;
    }
    ask(channel, name, AF_INET, ipv4);
    ask(channel, name, AF_INET6, ipv6);
  }

  void look_at_answers(TimePoint now) {
    if (result) {
      return;
    }
    const bool found = !ipv4.addresses.empty() || !ipv6.addresses.empty();
    if (found) {
      give_up = std::min(give_up, now + kSecondAnswerTimeout);
    }
    if ((!ipv4.over || !ipv6.over) && now < give_up) {
      return;
    }
    close_channel();  // completes pending queries with ARES_EDESTRUCTION
    if (found) {
      ipv4.addresses.insert(ipv4.addresses.end(), ipv6.addresses.begin(), ipv6.addresses.end());
      result.emplace(std::move(ipv4.addresses));
    } else {
      fail(no_answer_error(name, worse_status()));
    }
  }

  // Returns the more informative of the two statuses. ARES_ENOTFOUND (the server replied that the
  // name does not exist) is decisive. ARES_ENODATA is used only if no query failed.
  [[nodiscard]] int worse_status() const {
    const auto rank = [](int status) {
      return status == ARES_ENOTFOUND ? 2 : status == ARES_ENODATA ? 0 : 1;
    };
    const int status = rank(ipv6.status) > rank(ipv4.status) ? ipv6.status : ipv4.status;
    return status == ARES_EDESTRUCTION ? ARES_ETIMEOUT : status;
  }
};

DnsQuery::DnsQuery(std::string name, TimePoint now, Duration timeout)
    : impl_(std::make_unique<Impl>(std::move(name), now + timeout)) {
  if (!impl_->answer_without_servers()) {
    impl_->ask_servers();
    impl_->look_at_answers(now);
  }
}

DnsQuery::~DnsQuery() = default;

const std::optional<Result<Addresses>>& DnsQuery::result() const {
  return impl_->result;
}

int DnsQuery::descriptor() const {
  return impl_->set.get();
}

TimePoint DnsQuery::next_deadline(TimePoint now) const {
  timeval wait{};
  if (impl_->channel == nullptr || ares_timeout(impl_->channel, nullptr, &wait) == nullptr) {
    return impl_->give_up;
  }
  const Duration until = std::chrono::seconds(wait.tv_sec) +
                         std::chrono::microseconds(wait.tv_usec) + std::chrono::milliseconds(1);
  return std::min(impl_->give_up, now + until);
}

void DnsQuery::step(TimePoint now) {
  if (impl_->result) {
    return;
  }
  std::array<epoll_event, 16> events{};
  const int count =
      ::epoll_wait(impl_->set.get(), events.data(), static_cast<int>(events.size()), 0);
  for (int i = 0; i < count; ++i) {
    const auto& event = events.at(static_cast<std::size_t>(i));
    const bool readable = (event.events & (EPOLLIN | EPOLLERR | EPOLLHUP)) != 0;
    const bool writable = (event.events & EPOLLOUT) != 0;
    ares_process_fd(impl_->channel,
                    readable ? event.data.fd : ARES_SOCKET_BAD,
                    writable ? event.data.fd : ARES_SOCKET_BAD);
  }
  ares_process_fd(
      impl_->channel, ARES_SOCKET_BAD, ARES_SOCKET_BAD);  // lets c-ares process its timeouts
  impl_->look_at_answers(now);
}

}  // namespace muster
