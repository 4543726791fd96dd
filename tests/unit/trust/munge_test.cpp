// SPDX-License-Identifier: Apache-2.0
#include "trust/munge.hpp"

#include "support/catch.hpp"

using namespace muster;

namespace {

constexpr uid_t kUser = 1000;
const std::string kSecret(64, 'a');

// The output of `unmunge`: metadata of the credential, an empty line, the payload.
std::string opened(const std::string& status, const std::string& user, const std::string& sealed) {
  return "STATUS:          " + status + "\nUID:             " + user + "\n\n" + sealed;
}

}  // namespace

TEST_CASE("munge: encodes a secret for our user, without passing it on a command line") {
  const MungeCall call = seal_call(kSecret, kUser);
  CHECK(call.argv == std::vector<std::string>{"munge", "--restrict-uid=1000"});
  CHECK_THAT(call.input, Catch::EndsWith(kSecret));
  CHECK(open_call("MUNGE:x:").input == "MUNGE:x:");
}

TEST_CASE("munge: a credential is one line; other output becomes an error in MUNGE's words") {
  CHECK(take_credential("MUNGE:AwQFAAD:\n") == "MUNGE:AwQFAAD:");
  const auto gone = take_credential("munge: Error: Failed to access \"/run/x\": No such file\n");
  REQUIRE_FALSE(gone);
  CHECK(gone.error().message == "MUNGE: Failed to access \"/run/x\": No such file");
  for (const char* cut : {"", "MUNGE:", "MUNGE:AwQF", "\n", "Error"}) {
    CHECK_FALSE(take_credential(cut));
  }
  CHECK(take_credential("").error().message == "MUNGE: no answer");
}

TEST_CASE("munge: decodes what we have encoded, even a second time on one machine") {
  const std::string sealed = seal_call(kSecret, kUser).input;
  CHECK(take_secret(opened("0", "1000", sealed), kUser) == kSecret);
  CHECK(take_secret("unmunge: Error: Replayed credential\n" + opened("17", "1000", sealed),
                    kUser) == kSecret);
  CHECK(take_secret(opened("17", "1000", sealed) + "unmunge: Error: Replayed credential\n",
                    kUser) == kSecret);
}

TEST_CASE("munge: rejects a credential from another user or for another purpose") {
  const std::string sealed = seal_call(kSecret, kUser).input;
  const auto fault = [](const std::string& printed) {
    const auto taken = take_secret(printed, kUser);
    REQUIRE_FALSE(taken);
    return taken.error().message;
  };
  CHECK(fault(opened("0", "1001", sealed)) == "MUNGE: the credential was created by user 1001");
  CHECK(fault(opened("0", "10000", sealed)).ends_with("user 10000"));
  CHECK(fault(opened("0", "", sealed)).ends_with("by user "));
  CHECK(fault(opened("0", "1000", kSecret)) ==
        "MUNGE: the credential was created for another purpose");
  CHECK(fault(opened("15", "1000", sealed)).starts_with("MUNGE: the credential has expired"));
  CHECK(fault(opened("16", "1000", sealed)).starts_with("MUNGE: the credential is dated"));
  CHECK(fault(opened("1", "1000", sealed)) == "MUNGE: the credential is invalid (status 1)");
  CHECK(fault("unmunge: Error: Invalid credential\n") == "MUNGE: Invalid credential");
  CHECK(fault("STATUS:          0\n") == "MUNGE: no answer");
  CHECK(fault("") == "MUNGE: no answer");
}
