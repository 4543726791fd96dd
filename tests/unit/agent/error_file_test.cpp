// SPDX-License-Identifier: Apache-2.0
#include "agent/failures/error_file.hpp"

#include "agent/failures/report.hpp"
#include "support/catch.hpp"

using namespace muster;

namespace {

constexpr const char* kTorchFile =
    R"({"message": {"message": "RuntimeError: boom", "extraInfo": )"
    R"({"py_callstack": "Traceback (most recent call last):\n  boom\n", )"
    R"("timestamp": "1795249486"}}})";

}  // namespace

TEST_CASE("error file: what torch's record wrote is understood") {
  const auto record = parse_error_file(kTorchFile);
  REQUIRE(record);
  CHECK(record->message == "RuntimeError: boom");
  CHECK(record->traceback == "Traceback (most recent call last):\n  boom\n");
  CHECK(record->unix_seconds == 1795249486.0);
}

TEST_CASE("error file: reads a plain message with a numeric timestamp") {
  const auto record = parse_error_file(R"({"message": "gone", "timestamp": 12})");
  REQUIRE(record);
  CHECK(record->message == "gone");
  CHECK(record->unix_seconds == 12.0);
}

TEST_CASE("error file: rubbish is no record") {
  const std::string deep(200'000, '[');
  const std::string huge = "{\"message\": \"" + std::string(kErrorFileBytesMax, 'x') + "\"}";
  for (const std::string& text : {std::string(),
                                  std::string("{"),
                                  std::string("[1]"),
                                  std::string("null"),
                                  deep,
                                  huge,
                                  std::string(R"({"message": 7})"),
                                  std::string(R"({"message": {"message": ["x"]}})"),
                                  std::string("{\"message\": \"\xff\xfe\"}"),
                                  std::string("\0\0\0", 3)}) {
    CHECK_FALSE(parse_error_file(text));
  }
}

TEST_CASE("error file: drops an invalid timestamp and keeps the other fields") {
  for (const char* time : {"\"soon\"", "-1", "1e999", "[]", "\"12x\"", "null"}) {
    INFO(time);
    const auto record = parse_error_file(
        std::string(R"({"message": {"message": "m", "extraInfo": {"timestamp": )") + time + "}}}");
    if (record) {  // 1e999 is not a valid JSON number for the parser
      CHECK(record->message == "m");
      CHECK_FALSE(record->unix_seconds);
    }
  }
}

TEST_CASE("error file: the exit code is added where there is a place for it") {
  const std::string with = with_error_code(kTorchFile, 7);
  CHECK(with.find("\"errorCode\": 7") != std::string::npos);
  CHECK(parse_error_file(with) == parse_error_file(kTorchFile));
  CHECK(with_error_code(kTorchFile, 0) == kTorchFile);
  CHECK(with_error_code("{\"message\": \"x\"}", 7) == "{\"message\": \"x\"}");
  CHECK(with_error_code("rubbish", 7) == "rubbish");
}

TEST_CASE("error file: a failure without an error file is written in the same format") {
  WorkerFailure failure;
  failure.rank = 3;
  failure.status = ExitStatus{false, 9};
  failure.wall_seconds = 1795249486.7;
  const auto record = parse_error_file(make_error_file(failure, "Traceback x"));
  REQUIRE(record);
  CHECK(record->message.find("rank 3 ") == 0);
  CHECK(record->traceback == "Traceback x");
  CHECK(record->unix_seconds == 1795249486.0);
}

TEST_CASE("error file: the JSON report contains the fields of its site") {
  ReportSite site{"node", "x.py", "", false};
  site.fields = R"({"check":null,"account":{"total_us":7}})";
  CHECK(report_json(JobResult{}, site)
            .ends_with("  \"check\": null,\n  \"account\": {\n    \"total_us\": 7\n  }\n}\n"));
  site.fields = "[";
  CHECK(report_json(JobResult{}, site).find("check") == std::string::npos);
}

TEST_CASE("error file: the JSON report accepts output that is not valid UTF-8") {
  JobResult result;
  result.outcome = Outcome::failed;
  WorkerFailure failure;
  failure.status = ExitStatus{false, 9};
  failure.stderr_tail = "\xff\xfe\x01 rubbish";
  result.failures = {failure};
  const std::string json = report_json(result, ReportSite{"node", "x.py", "", false});
  CHECK(json.find("\"exit_code\": 9") != std::string::npos);
  CHECK(json.find("rubbish") != std::string::npos);
}
