// SPDX-License-Identifier: Apache-2.0
#include "http/client.hpp"

#include "io/wait_ready.hpp"

#include <array>
#include <cerrno>
#include <utility>

#include <http_parser.h>
#include <poll.h>
#include <sys/socket.h>

namespace muster {
namespace {

constexpr std::size_t kClientReadBytes = std::size_t{64} * 1024;
constexpr std::string_view kData = "data: ";

std::unexpected<Error> no_answer() {
  return failure(Errc::timed_out, "no response in time");
}

std::unexpected<Error> too_long() {
  return failure(Errc::protocol, "the response is too long");
}

Result<void> send_all(int fd, std::string_view text, TimePoint deadline) {
  while (!text.empty()) {
    const ssize_t count = ::send(fd, text.data(), text.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (count > 0) {
      text.remove_prefix(static_cast<std::size_t>(count));
    } else if (errno != EAGAIN && errno != EINTR) {
      return std::unexpected(system_error("cannot send the request", errno));
    } else if (!wait_ready(fd, POLLOUT, deadline)) {
      return no_answer();
    }
  }
  return {};
}

}  // namespace

struct HttpStream::Impl {
  UniqueFd socket;
  http_parser parser{};
  std::string body;
  bool head_there = false;
  bool over = false;

  explicit Impl(UniqueFd fd) : socket(std::move(fd)) {
    http_parser_init(&parser, HTTP_RESPONSE);
    parser.data = this;
  }

  static Impl& of(http_parser* p) { return *static_cast<Impl*>(p->data); }

  static http_parser_settings settings() {
    http_parser_settings out;
    http_parser_settings_init(&out);
    out.on_headers_complete = [](http_parser* p) {
      of(p).head_there = true;
      return 0;
    };
    out.on_body = [](http_parser* p, const char* at, std::size_t size) {
      of(p).body.append(at, size);
      return 0;
    };
    out.on_message_complete = [](http_parser* p) {
      of(p).over = true;
      return 0;
    };
    return out;
  }

  // Waits until data is available, then reads once.
  Result<void> read(TimePoint deadline) {
    return wait_ready(socket.get(), POLLIN, deadline) ? read_ready() : no_answer();
  }

  // Reads once without waiting.
  Result<void> read_ready() {
    static const http_parser_settings kSettings = settings();
    std::array<char, kClientReadBytes> bytes;
    const ssize_t count = ::recv(socket.get(), bytes.data(), bytes.size(), MSG_DONTWAIT);
    if (count < 0 && (errno == EAGAIN || errno == EINTR)) {
      return {};
    }
    if (count < 0) {
      return failure(Errc::closed, "the connection was lost: " + errno_text(errno));
    }
    http_parser_execute(&parser, &kSettings, bytes.data(), static_cast<std::size_t>(count));
    if (HTTP_PARSER_ERRNO(&parser) != HPE_OK && !over) {
      return count == 0 ? failure(Errc::closed, "the connection was closed during the response")
                        : failure(Errc::protocol, "the response is not valid HTTP");
    }
    if (count == 0 && !over) {
      return failure(Errc::closed, "the connection was closed during the response");
    }
    return {};
  }
};

HttpStream::HttpStream(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

HttpStream::~HttpStream() = default;
HttpStream::HttpStream(HttpStream&&) noexcept = default;
HttpStream& HttpStream::operator=(HttpStream&&) noexcept = default;

Result<HttpStream> HttpStream::get(UniqueFd socket,
                                   std::string_view host,
                                   std::string_view target,
                                   TimePoint deadline,
                                   std::string_view key) {
  auto stream = begin(std::move(socket), host, target, deadline, key);
  if (!stream) {
    return stream;
  }
  while (!stream->impl_->head_there) {
    MUSTER_RETURN_IF_ERROR(stream->impl_->read(deadline));
  }
  return stream;
}

Result<HttpStream> HttpStream::begin(UniqueFd socket,
                                     std::string_view host,
                                     std::string_view target,
                                     TimePoint deadline,
                                     std::string_view key) {
  HttpStream stream(std::make_unique<Impl>(std::move(socket)));
  std::string request = "GET ";
  request.append(target).append(" HTTP/1.1\r\nHost: ").append(host);
  if (!key.empty()) {
    request.append("\r\nAuthorization: Bearer ").append(key);
  }
  request += "\r\nConnection: close\r\n\r\n";
  MUSTER_RETURN_IF_ERROR(send_all(stream.fd(), request, deadline));
  return stream;
}

Result<bool> HttpStream::take_ready() {
  MUSTER_RETURN_IF_ERROR(impl_->read_ready());
  if (impl_->body.size() > kAnswerBytesMax) {
    return too_long();
  }
  return impl_->over;
}

int HttpStream::status() const {
  return static_cast<int>(impl_->parser.status_code);
}

int HttpStream::fd() const {
  return impl_->socket.get();
}

Result<std::string> HttpStream::read_some(TimePoint deadline) {
  while (impl_->body.empty() && !impl_->over) {
    MUSTER_RETURN_IF_ERROR(impl_->read(deadline));
  }
  return std::exchange(impl_->body, {});
}

Result<std::string> HttpStream::read_all(TimePoint deadline) {
  std::string out;
  while (true) {
    auto part = read_some(deadline);
    if (!part || part->empty()) {
      return part ? Result<std::string>(std::move(out)) : std::unexpected(part.error());
    }
    out += *part;
    if (out.size() > kAnswerBytesMax) {
      return too_long();
    }
  }
}

Result<std::string> EventLines::feed(std::string_view part) {
  std::string out;
  rest_ += part;
  std::size_t begin = 0;
  for (auto end = rest_.find('\n'); end != std::string::npos; end = rest_.find('\n', begin)) {
    const std::string_view line = std::string_view(rest_).substr(begin, end - begin);
    if (line.starts_with(kData)) {
      out.append(line.substr(kData.size())).push_back('\n');
    }
    begin = end + 1;
  }
  rest_.erase(0, begin);
  if (rest_.size() > kEventLineBytesMax) {
    return failure(Errc::protocol, "an event in the response is too long");
  }
  return out;
}

}  // namespace muster
