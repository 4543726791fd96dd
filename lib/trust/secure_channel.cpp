// SPDX-License-Identifier: Apache-2.0
#include "trust/secure_channel.hpp"

#include "base/check.hpp"
#include "trust/tls_library.hpp"

#include <array>
#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <utility>

namespace muster {
namespace {

// A pre-shared key is bound to the hash of its cipher suite, so the suite is not negotiable.
constexpr const char* kSuite = "TLS_AES_128_GCM_SHA256";
constexpr std::array<unsigned char, 2> kSuiteNumber{0x13, 0x01};
constexpr const char* kGroup = "X25519";
constexpr std::size_t kReadBytes = 16384;

const JobTrust& trust_of(const SSL* ssl) {
  return *static_cast<const JobTrust*>(SSL_get_app_data(ssl));
}

// OpenSSL represents an external pre-shared key as a session, although none was established before.
SSL_SESSION* session_of(SSL* ssl) {
  SSL_SESSION* const session = SSL_SESSION_new();
  const SSL_CIPHER* const suite = SSL_CIPHER_find(ssl, kSuiteNumber.data());
  const JobKey& key = trust_of(ssl).key();
  MUSTER_CHECK(session != nullptr && suite != nullptr &&
               SSL_SESSION_set1_master_key(session, key.data(), key.size()) == 1 &&
               SSL_SESSION_set_cipher(session, suite) == 1 &&
               SSL_SESSION_set_protocol_version(session, TLS1_3_VERSION) == 1);
  return session;
}

int offer_key(SSL* ssl,
              const EVP_MD* /*hash*/,
              const unsigned char** identity,
              std::size_t* size,
              SSL_SESSION** session) {
  const std::string& job = trust_of(ssl).job();
  *identity = reinterpret_cast<const unsigned char*>(job.data());
  *size = job.size();
  *session = session_of(ssl);
  return 1;
}

// Rejects all other identities. The pre-shared key is the only way to authenticate.
int find_key(SSL* ssl, const unsigned char* identity, std::size_t size, SSL_SESSION** session) {
  const std::string_view named(reinterpret_cast<const char*>(identity), size);
  *session = named == trust_of(ssl).job() ? session_of(ssl) : nullptr;
  return 1;
}

SSL_CTX* make_context() {
  use_tls_library();
  SSL_CTX* const context = SSL_CTX_new(TLS_method());
  MUSTER_CHECK(context != nullptr && SSL_CTX_set_min_proto_version(context, TLS1_3_VERSION) == 1 &&
               SSL_CTX_set_ciphersuites(context, kSuite) == 1 &&
               SSL_CTX_set1_groups_list(context, kGroup) == 1 &&
               SSL_CTX_set_num_tickets(context, 0) == 1);
  SSL_CTX_set_options(context, SSL_OP_NO_TICKET | SSL_OP_NO_COMPRESSION);
  SSL_CTX_set_mode(context, SSL_MODE_RELEASE_BUFFERS);
  SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_psk_use_session_callback(context, offer_key);
  SSL_CTX_set_psk_find_session_callback(context, find_key);
  return context;
}

// Contains no key, so all channels share it: SSL_CTX_new looks up every cipher that OpenSSL has,
// which takes longer than a handshake. Created by prepare_channels().
SSL_CTX* shared_context() {
  static const std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)> context(make_context(),
                                                                         SSL_CTX_free);
  return context.get();
}

}  // namespace

void prepare_channels() {
  static_cast<void>(shared_context());
}

JobTrust::JobTrust(std::string_view token, std::string job)
    : key_(derive_job_key(token, job)), job_(std::move(job)) {}

JobTrust::~JobTrust() {
  OPENSSL_cleanse(key_.data(), key_.size());
}

void SecureChannel::Free::operator()(ssl_st* ssl) const {
  SSL_free(ssl);
}

SecureChannel::SecureChannel(const JobTrust& trust, Side side) : ssl_(SSL_new(shared_context())) {
  BIO* const in = BIO_new(BIO_s_mem());
  BIO* const out = BIO_new(BIO_s_mem());
  MUSTER_CHECK(ssl_ && in != nullptr && out != nullptr);
  SSL_set_bio(ssl_.get(), in, out);
  MUSTER_CHECK(SSL_set_app_data(ssl_.get(), const_cast<JobTrust*>(&trust)) == 1);
  if (side == Side::server) {
    SSL_set_accept_state(ssl_.get());
    return;
  }
  SSL_set_connect_state(ssl_.get());
  // A server without the key could only present a certificate, and we trust no certificates.
  SSL_set_verify(ssl_.get(), SSL_VERIFY_PEER, nullptr);
  shake();
}

SecureChannel::State SecureChannel::feed(std::string_view bytes, std::string& plain) {
  if (state_ == State::failed || bytes.empty()) {
    return state_;
  }
  const auto size = static_cast<int>(bytes.size());
  MUSTER_CHECK(BIO_write(SSL_get_rbio(ssl_.get()), bytes.data(), size) == size);
  if (state_ == State::shaking) {
    shake();
  }
  if (state_ == State::open) {
    open(plain);
  }
  return state_;
}

void SecureChannel::shake() {
  ERR_clear_error();
  const int done = SSL_do_handshake(ssl_.get());
  if (done == 1 && SSL_session_reused(ssl_.get()) == 1) {
    state_ = State::open;
  } else if (done == 1 || SSL_get_error(ssl_.get(), done) != SSL_ERROR_WANT_READ) {
    fail();
  }
}

void SecureChannel::open(std::string& plain) {
  std::array<char, kReadBytes> buffer;
  while (state_ == State::open) {
    ERR_clear_error();
    const int count = SSL_read(ssl_.get(), buffer.data(), static_cast<int>(buffer.size()));
    if (count > 0) {
      plain.append(buffer.data(), static_cast<std::size_t>(count));
    } else if (SSL_get_error(ssl_.get(), count) == SSL_ERROR_WANT_READ) {
      return;
    } else {
      fail();
    }
  }
}

void SecureChannel::fail() {
  state_ = State::failed;
  const unsigned long error = ERR_peek_error();
  const int reason = ERR_GET_REASON(error);
  was_refused_ = ERR_GET_LIB(error) == ERR_LIB_SSL && reason > SSL_AD_REASON_OFFSET;
  fault_ = error == 0 ? "connection closed" : "OpenSSL error " + std::to_string(reason);
  ERR_clear_error();
}

void SecureChannel::seal(std::string_view plain) {
  MUSTER_CHECK(state_ == State::open);
  if (!plain.empty()) {
    std::size_t written = 0;
    ERR_clear_error();
    MUSTER_CHECK(SSL_write_ex(ssl_.get(), plain.data(), plain.size(), &written) == 1 &&
                 written == plain.size());
  }
}

std::string SecureChannel::take_output() {
  BIO* const out = SSL_get_wbio(ssl_.get());
  char* data = nullptr;
  const long size = BIO_get_mem_data(out, &data);
  std::string bytes(data, static_cast<std::size_t>(size));
  BIO_reset(out);
  return bytes;
}

FirstRecord look_at_first_record(std::string_view bytes) {
  constexpr std::size_t kHead = 5;
  constexpr char kHandshake = 22;
  const auto byte = [bytes](std::size_t i) { return static_cast<unsigned char>(bytes[i]); };
  if ((!bytes.empty() && bytes[0] != kHandshake) || (bytes.size() > 1 && byte(1) != 3)) {
    return FirstRecord::foreign;
  }
  if (bytes.size() < kHead) {
    return FirstRecord::incomplete;
  }
  const std::size_t body = (std::size_t{byte(3)} << 8U) + byte(4);
  if (body == 0 || kHead + body > kMaxRecordBytes) {
    return FirstRecord::foreign;
  }
  return bytes.size() < kHead + body ? FirstRecord::incomplete : FirstRecord::whole;
}

}  // namespace muster
