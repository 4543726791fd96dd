// SPDX-License-Identifier: Apache-2.0
#include "trust/secure_channel.hpp"

#include "support/catch.hpp"

#include <algorithm>
#include <memory>
#include <openssl/evp.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <string>
#include <utility>

using namespace muster;
using Side = SecureChannel::Side;
using State = SecureChannel::State;

namespace {

constexpr const char* kToken = "0123456789abcdef0123456789abcdef";

// Both ends of one connection, and all bytes sent in each direction.
struct Pair {
  Pair(const JobTrust& one, const JobTrust& other)
      : client(one, Side::client), server(other, Side::server) {}

  // Runs until neither side has anything left to send.
  void talk(std::size_t piece = 1UL << 20U) {
    for (bool moved = true; moved;) {
      const bool up = pass(client, server, said_by_client, heard_by_server, piece);
      const bool down = pass(server, client, said_by_server, heard_by_client, piece);
      moved = up || down;
    }
  }

  static bool pass(SecureChannel& from,
                   SecureChannel& to,
                   std::string& said,
                   std::string& heard,
                   std::size_t piece) {
    const std::string out = from.take_output();
    said += out;
    for (std::size_t at = 0; at < out.size(); at += piece) {
      to.feed(out.substr(at, piece), heard);
    }
    return !out.empty();
  }

  SecureChannel client;
  SecureChannel server;
  std::string said_by_client;
  std::string said_by_server;
  std::string heard_by_client;
  std::string heard_by_server;
};

// The answer of a server that has a self-signed certificate and no key of ours.
std::string certified_answer(const std::string& hello) {
  const std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)> key(
      EVP_PKEY_Q_keygen(nullptr, nullptr, "EC", "P-256"), EVP_PKEY_free);
  const std::unique_ptr<X509, decltype(&X509_free)> shown(X509_new(), X509_free);
  X509_gmtime_adj(X509_getm_notBefore(shown.get()), 0);
  X509_gmtime_adj(X509_getm_notAfter(shown.get()), 3600);
  REQUIRE(X509_set_pubkey(shown.get(), key.get()) == 1);
  REQUIRE(X509_sign(shown.get(), key.get(), EVP_sha256()) > 0);
  const std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)> context(SSL_CTX_new(TLS_method()),
                                                                  SSL_CTX_free);
  REQUIRE(SSL_CTX_use_certificate(context.get(), shown.get()) == 1);
  REQUIRE(SSL_CTX_use_PrivateKey(context.get(), key.get()) == 1);
  const std::unique_ptr<SSL, decltype(&SSL_free)> server(SSL_new(context.get()), SSL_free);
  SSL_set_bio(server.get(), BIO_new(BIO_s_mem()), BIO_new(BIO_s_mem()));
  BIO_write(SSL_get_rbio(server.get()), hello.data(), static_cast<int>(hello.size()));
  static_cast<void>(SSL_accept(server.get()));
  char* bytes = nullptr;
  const long size = BIO_get_mem_data(SSL_get_wbio(server.get()), &bytes);
  return {bytes, static_cast<std::size_t>(size)};
}

}  // namespace

TEST_CASE("secure channel: peers with the same key read each other's messages, in any split") {
  const JobTrust trust(kToken, "job");
  for (const std::size_t piece : {std::size_t{1}, std::size_t{7}, std::size_t{1000000}}) {
    Pair pair(trust, trust);
    pair.talk(piece);
    REQUIRE(pair.client.state() == State::open);
    REQUIRE(pair.server.state() == State::open);
    const std::string text(100'000, 'x');
    pair.client.seal(text);
    pair.server.seal("pong");
    pair.talk(piece);
    CHECK(pair.heard_by_server == text);
    CHECK(pair.heard_by_client == "pong");
    CHECK(pair.said_by_client.find("xxxxxxxx") == std::string::npos);
  }
}

TEST_CASE("secure channel: two connections of one job share no encrypted bytes") {
  const JobTrust trust(kToken, "job");
  Pair one(trust, trust);
  Pair two(trust, trust);
  one.talk();
  two.talk();
  one.client.seal("the same");
  two.client.seal("the same");
  CHECK(one.client.take_output() != two.client.take_output());
}

TEST_CASE("secure channel: another token or job is refused, and the client learns that") {
  const JobTrust ours(kToken, "job");
  const JobTrust another_token("fedcba9876543210fedcba9876543210", "job");
  const JobTrust another_job(kToken, "job2");
  for (const JobTrust* theirs : {&another_token, &another_job}) {
    Pair pair(*theirs, ours);
    pair.talk();
    CHECK(pair.server.state() == State::failed);
    CHECK(pair.client.state() == State::failed);
    CHECK(pair.client.was_refused());
    CHECK_FALSE(pair.server.was_refused());
    CHECK_FALSE(pair.client.fault().empty());
  }
}

TEST_CASE("secure channel: rejects a server without the key") {
  // It can only repeat what it recorded on another connection.
  const JobTrust trust(kToken, "job");
  Pair honest(trust, trust);
  honest.talk();
  SecureChannel client(trust, Side::client);
  std::string plain;
  CHECK(client.feed(honest.said_by_server, plain) == State::failed);
  CHECK(plain.empty());
}

TEST_CASE("secure channel: a certificate is not proof") {
  const JobTrust trust(kToken, "job");
  SecureChannel client(trust, Side::client);
  const std::string answer = certified_answer(client.take_output());
  REQUIRE(answer.size() > 300);  // a server's complete first flight, and no alert
  std::string plain;
  CHECK(client.feed(answer, plain) == State::failed);
  CHECK(plain.empty());
}

TEST_CASE("secure channel: replayed messages open nothing") {
  const JobTrust trust(kToken, "job");
  Pair recorded(trust, trust);
  recorded.talk();
  recorded.client.seal("order");
  recorded.talk();
  REQUIRE(recorded.heard_by_server == "order");
  SecureChannel server(trust, Side::server);
  std::string plain;
  CHECK(server.feed(recorded.said_by_client, plain) == State::failed);
  CHECK(plain.empty());
}

TEST_CASE("secure channel: its own messages do not open it") {
  const JobTrust trust(kToken, "job");
  SecureChannel client(trust, Side::client);
  std::string plain;
  CHECK(client.feed(client.take_output(), plain) == State::failed);
}

TEST_CASE("secure channel: any changed byte ends it") {
  const JobTrust trust(kToken, "job");
  SecureChannel first(trust, Side::client);
  const std::string hello = first.take_output();
  for (std::size_t at = 0; at < hello.size(); at += 3) {
    SecureChannel server(trust, Side::server);
    std::string changed = hello;
    changed[at] = static_cast<char>(changed[at] ^ 0x41);
    std::string plain;
    CAPTURE(at);
    // After an increased length it waits for more.
    CHECK(server.feed(changed, plain) != State::open);
    CHECK(plain.empty());
  }
  Pair pair(trust, trust);
  pair.talk();
  pair.client.seal("order");
  std::string sealed = pair.client.take_output();
  sealed.back() = static_cast<char>(sealed.back() ^ 1);
  CHECK(pair.server.feed(sealed, pair.heard_by_server) == State::failed);
  CHECK(pair.heard_by_server.empty());
}

TEST_CASE("secure channel: a record that is truncated, missing or repeated yields nothing") {
  const JobTrust trust(kToken, "job");
  Pair pair(trust, trust);
  pair.talk();
  pair.client.seal("one");
  const std::string one = pair.client.take_output();
  CHECK(pair.server.feed(one.substr(0, one.size() - 1), pair.heard_by_server) == State::open);
  CHECK(pair.heard_by_server.empty());
  CHECK(pair.server.feed(one.substr(one.size() - 1), pair.heard_by_server) == State::open);
  CHECK(pair.heard_by_server == "one");
  CHECK(pair.server.feed(one, pair.heard_by_server) == State::failed);
  CHECK(pair.heard_by_server == "one");

  Pair gap(trust, trust);
  gap.talk();
  gap.client.seal("lost");
  static_cast<void>(gap.client.take_output());
  gap.client.seal("found");
  CHECK(gap.server.feed(gap.client.take_output(), gap.heard_by_server) == State::failed);
  CHECK(gap.heard_by_server.empty());
}

TEST_CASE("secure channel: garbage fails at once") {
  const JobTrust trust(kToken, "job");
  for (const std::string_view bytes :
       {"GET / HTTP/1.1\r\n\r\n", "\xA7MUSTER", "\x16\x03\x01zzzz"}) {
    SecureChannel server(trust, Side::server);
    std::string plain;
    server.feed(bytes, plain);
    CHECK(server.state() != State::open);
    CHECK(plain.empty());
  }
}

TEST_CASE("secure channel: a client's first message is one whole record") {
  const JobTrust trust(kToken, std::string(4096, 'j'));
  SecureChannel client(trust, Side::client);
  const std::string hello = client.take_output();
  for (std::size_t size = 0; size < hello.size(); ++size) {
    CHECK(look_at_first_record(hello.substr(0, size)) == FirstRecord::incomplete);
  }
  CHECK(look_at_first_record(hello) == FirstRecord::whole);
  CHECK(look_at_first_record(hello + "more") == FirstRecord::whole);
  for (const std::string_view bytes : {"G", "\x15\x03\x01", "\x16\x02", "\x17"}) {
    CHECK(look_at_first_record(bytes) == FirstRecord::foreign);
  }
  CHECK(look_at_first_record(std::string("\x16\x03\x01\x00\x00", 5)) == FirstRecord::foreign);
  CHECK(look_at_first_record("\x16\x03\x01\x40\x01") == FirstRecord::foreign);
  CHECK(look_at_first_record(std::string("\x16\x03\x01\x40\x00", 5)) == FirstRecord::incomplete);
}
