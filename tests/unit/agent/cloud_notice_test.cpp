// SPDX-License-Identifier: Apache-2.0
// CloudNotice: the requests to the metadata services of clouds, and their answers.
#include "agent/watch/cloud_notice.hpp"

#include "support/catch.hpp"

using namespace muster;

namespace {

constexpr std::int64_t kTime = 1796026920;  // 2026-11-30 08:22:00 UTC

std::string url(const CloudNotice& notice) {
  const std::string request = notice.request();
  return request.substr(0, request.find('\n'));
}

bool is_no(const CloudVerdict& verdict) {
  return !verdict.is_preempted && verdict.problem.empty();
}

bool is_problem(const CloudVerdict& verdict) {
  return !verdict.is_preempted && !verdict.problem.empty();
}

}  // namespace

TEST_CASE("cloud notice: times") {
  CHECK(parse_cloud_time("2026-11-30T08:22:00Z") == kTime);
  CHECK(parse_cloud_time("Mon, 30 Nov 2026 08:22:00 GMT") == kTime);
  for (const char* const text : {"", "soon", "2026-11-30T08:22:00Z+", "2026-11-30"}) {
    CHECK_FALSE(parse_cloud_time(text));
  }
}

TEST_CASE("cloud notice: AWS asks for a token first, and again when it has expired") {
  CloudNotice notice("aws");
  CHECK_FALSE(notice.is_ready());
  CHECK(url(notice) == "url = \"http://169.254.169.254/latest/api/token\"");
  CHECK(notice.request().find("request = \"PUT\"") != std::string::npos);
  CHECK(is_problem(notice.take({0, ""})));
  CHECK(is_problem(notice.take({403, "no"})));
  CHECK(is_problem(notice.take({200, "two\nlines"})));
  CHECK_FALSE(notice.is_ready());
  CHECK(is_no(notice.take({200, "TO\\KEN\n"})));
  CHECK(notice.is_ready());
  CHECK(url(notice) == "url = \"http://169.254.169.254/latest/meta-data/spot/instance-action\"");
  CHECK(notice.request().find("\"X-aws-ec2-metadata-token: TO\\\\KEN\"") != std::string::npos);
  CHECK(is_no(notice.take({404, "<html>"})));
  CHECK(is_problem(notice.take({500, "x"})));
  CHECK(is_problem(notice.take({200, "[]"})));
  CHECK(is_no(notice.take({401, ""})));
  CHECK_FALSE(notice.is_ready());
  CHECK(is_no(notice.take({200, "NEW"})));
  const auto found =
      notice.take({200, R"({"action": "terminate", "time": "2026-11-30T08:22:00Z"})"});
  CHECK(found.is_preempted);
  CHECK(found.unix_time == kTime);
  CHECK(notice.take({200, R"({"action": "stop", "time": 7})"}).is_preempted);
}

TEST_CASE("cloud notice: Azure names the machines") {
  CloudNotice notice("azure");
  CHECK(notice.request().find("/metadata/instance/compute/name?") != std::string::npos);
  CHECK(is_no(notice.take({200, "vm-1"})));
  CHECK(notice.request().find("/metadata/scheduledevents?") != std::string::npos);
  CHECK(is_no(notice.take({200, R"({"DocumentIncarnation": 1, "Events": []})"})));
  const auto events = [](const std::string& type, const std::string& machine) {
    return CloudAnswer{200,
                       R"({"Events": [7, {"EventType": ")" + type +
                           R"(", "Resources": ["vm-0", ")" + machine +
                           R"("], "NotBefore": "Mon, 30 Nov 2026 08:22:00 GMT"}]})"};
  };
  CHECK(is_no(notice.take(events("Preempt", "vm-2"))));
  CHECK(is_no(notice.take(events("Freeze", "vm-1"))));
  CHECK(notice.take(events("Preempt", "vm-1")).unix_time == kTime);
  for (const char* const body : {"", "{}", R"({"Events": 1})", "null"}) {
    CHECK(is_problem(notice.take({200, body})));
  }
}

TEST_CASE("cloud notice: Google Cloud and other URLs answer with a word") {
  CHECK(CloudNotice("gcp").request().find("Metadata-Flavor: Google") != std::string::npos);
  CHECK(url(CloudNotice("https://a/\"b\"")) == "url = \"https://a/\\\"b\\\"\"");
  for (const char* const source : {"gcp", "http://notices/42"}) {
    CloudNotice notice(source);
    CHECK(notice.is_ready());
    for (const char* const word : {"", "FALSE", "false\n", " None "}) {
      CHECK(is_no(notice.take({200, word})));
    }
    CHECK(is_no(notice.take({404, "not found"})));
    CHECK(is_problem(notice.take({500, "TRUE"})));
    CHECK(is_problem(notice.take({0, ""})));
    CHECK(notice.take({200, "TRUE"}).is_preempted);
    CHECK_FALSE(notice.take({200, "TRUE"}).unix_time);
  }
}
