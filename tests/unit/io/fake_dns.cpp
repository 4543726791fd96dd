// SPDX-License-Identifier: Apache-2.0
#include "fake_dns.hpp"

#include "support/catch.hpp"

#include <array>
#include <utility>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

namespace {

constexpr int kTypeA = 1;
constexpr int kTypeAaaa = 28;
constexpr std::size_t kHeaderBytes = 12;

struct Question {
  std::string name;
  int type = 0;
  std::size_t end = 0;  // offset of the first byte after it
};

Question read_question(const std::string& packet) {
  Question question;
  std::size_t at = kHeaderBytes;
  while (at < packet.size() && packet[at] != 0) {
    const auto length = static_cast<unsigned char>(packet[at]);
    question.name += (question.name.empty() ? "" : ".") + packet.substr(at + 1, length);
    at += length + 1;
  }
  question.type = at + 2 < packet.size() ? packet[at + 2] : 0;
  question.end = at + 5;
  return question;
}

void append_short(std::string& out, int value) {
  out += static_cast<char>(value >> 8);
  out += static_cast<char>(value & 0xff);
}

std::string records(const std::vector<std::string>& addresses, int type, int& count) {
  std::string out;
  for (const auto& address : addresses) {
    std::array<char, 16> raw{};
    const int family = type == kTypeA ? AF_INET : AF_INET6;
    if (::inet_pton(family, address.c_str(), raw.data()) == 1) {
      const std::size_t bytes = type == kTypeA ? 4 : 16;
      append_short(out, 0xc00c);  // a pointer to the name in the question
      append_short(out, type);
      append_short(out, 1);  // class IN
      append_short(out, 0);
      append_short(out, 60);  // time to live
      append_short(out, static_cast<int>(bytes));
      out.append(raw.data(), bytes);
      ++count;
    }
  }
  return out;
}

std::string answer(const DnsTable& table, const std::string& packet, const Question& question) {
  const auto found = table.addresses.find(question.name);
  const bool known = found != table.addresses.end();
  int count = 0;
  const std::string body = known ? records(found->second, question.type, count) : "";
  std::string out = packet.substr(0, 2);
  append_short(out, known ? 0x8180 : 0x8183);  // no error, or no such name
  append_short(out, 1);
  append_short(out, count);
  append_short(out, 0);
  append_short(out, 0);
  return out + packet.substr(kHeaderBytes, question.end - kHeaderBytes) + body;
}

}  // namespace

FakeDns::FakeDns(const std::string& address, DnsTable table)
    : table_(std::move(table)),
      socket_(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0)),
      stop_(::eventfd(0, EFD_CLOEXEC)) {
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_port = htons(53);
  REQUIRE(::inet_pton(AF_INET, address.c_str(), &at.sin_addr) == 1);
  REQUIRE(::bind(socket_, reinterpret_cast<const sockaddr*>(&at), sizeof at) == 0);
  thread_ = std::thread([this] { serve(); });
}

FakeDns::~FakeDns() {
  ::eventfd_write(stop_, 1);
  thread_.join();
  ::close(socket_);
  ::close(stop_);
}

void FakeDns::serve() {
  while (true) {
    std::array<pollfd, 2> wait{{{socket_, POLLIN, 0}, {stop_, POLLIN, 0}}};
    ::poll(wait.data(), wait.size(), -1);
    if (wait[1].revents != 0) {
      return;
    }
    std::array<char, 1500> buffer{};
    sockaddr_in from{};
    socklen_t from_bytes = sizeof from;
    const auto bytes = ::recvfrom(
        socket_, buffer.data(), buffer.size(), 0, reinterpret_cast<sockaddr*>(&from), &from_bytes);
    if (bytes < static_cast<ssize_t>(kHeaderBytes)) {
      continue;
    }
    ++questions_;
    const std::string packet(buffer.data(), static_cast<std::size_t>(bytes));
    const auto question = read_question(packet);
    if (table_.silent || (table_.drop_aaaa && question.type == kTypeAaaa)) {
      continue;
    }
    const std::string reply = answer(table_, packet, question);
    ::sendto(socket_,
             reply.data(),
             reply.size(),
             0,
             reinterpret_cast<const sockaddr*>(&from),
             from_bytes);
  }
}
