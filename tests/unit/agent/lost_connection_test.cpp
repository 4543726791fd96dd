// SPDX-License-Identifier: Apache-2.0
#include "agent/failures/lost_connection.hpp"

#include "support/catch.hpp"

#include <string>

using namespace muster;

namespace {

WorkerFailure said(const std::string& text) {
  WorkerFailure failure;
  failure.status = ExitStatus{false, 1};
  failure.stderr_tail = text;
  return failure;
}

std::string traceback(const std::string& exception) {
  return "Traceback (most recent call last):\n  File \"train.py\", line 2, in <module>\n"
         "    dist.all_reduce(x)\n" +
         exception + "\n";
}

const std::string kClosed =
    "RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:553] Connection closed by peer "
    "[127.0.0.1]:41873";

}  // namespace

TEST_CASE("lost connection: recognizes each backend's error messages") {
  for (const char* text :
       {"Connection closed by peer [10.0.0.1]:4",
        "ConnectionResetError: [Errno 104] Connection reset by peer",
        "BrokenPipeError: [Errno 32] Broken pipe",
        "failed to recv, got 0 bytes. Connection was likely closed. Did the remote server crash?",
        "remote process exited or there was a network error, NCCL version 2.28.3",
        "ncclRemoteError: A call failed possibly due to a network error",
        "muster.Error: peer_failed: rank 1 died",
        "muster.errors.PeerFailed: rank 2 has left (exited, or closed its communicator)",
        "rank 2 closed its connection to rank 0 during all_reduce",
        "rank 1 (pid 4711) has died; it was in all_reduce",
        "rank 1 has died, or its host cannot be reached"}) {
    INFO(text);
    CHECK(says_lost_connection(text));
  }
}

TEST_CASE("lost connection: other errors do not count") {
  for (const char* text : {"",
                           "ValueError: bad batch 17",
                           "RuntimeError: CUDA out of memory",
                           "Timed out waiting 1800000ms for recv operation to complete",
                           "FileNotFoundError: no such file"}) {
    INFO(text);
    CHECK_FALSE(says_lost_connection(text));
  }
}

TEST_CASE("lost connection: the last exception on stderr decides, with or without torch's prefix") {
  CHECK(is_lost_connection(said(traceback(kClosed))));
  CHECK(
      is_lost_connection(said("[rank0]: Traceback (most recent call last):\n"
                              "[rank0]:   File \"t.py\", line 1\n[rank0]: " +
                              kClosed + "\n[rank0]:[W] destroy_process_group() was not called")));
  CHECK_FALSE(is_lost_connection(said(traceback("ValueError: bad batch"))));
  CHECK_FALSE(is_lost_connection(
      said("Connection closed by peer: trying again\n" + traceback("ValueError: bad batch"))));
}

TEST_CASE("lost connection: an exception during cleanup does not hide the original one") {
  CHECK_FALSE(is_lost_connection(
      said(traceback("ValueError: bad batch") +
           "\nDuring handling of the above exception, another exception occurred:\n\n" +
           traceback(kClosed))));
}

TEST_CASE("lost connection: uses the error file, or the last lines if there is no traceback") {
  WorkerFailure failure = said("");
  failure.record = ErrorRecord{kClosed, "", 1000};
  CHECK(is_lost_connection(failure));
  failure.record = ErrorRecord{"ValueError: bad batch", "", 1000};
  CHECK_FALSE(is_lost_connection(failure));
  CHECK(is_lost_connection(said("a\nb\nread: Connection reset by peer\n")));
  CHECK_FALSE(is_lost_connection(said("Connection reset by peer\n1\n2\n3\n4\n")));
  CHECK_FALSE(is_lost_connection(said("")));
}

TEST_CASE(
    "lost connection: a worker that never ran or ran out of memory did not lose its connection") {
  WorkerFailure failure = said(traceback(kClosed));
  failure.out_of_memory = true;
  CHECK_FALSE(is_lost_connection(failure));
}
