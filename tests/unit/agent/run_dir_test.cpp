// SPDX-License-Identifier: Apache-2.0
#include "agent/workers/run_dir.hpp"

#include "agent/workers/files.hpp"
#include "support/catch.hpp"

#include <array>
#include <filesystem>
#include <string>

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

using namespace muster;

namespace {

bool exists(const std::string& path) {
  return ::access(path.c_str(), F_OK) == 0;
}

Environ with_tmpdir(const std::string& folder) {
  Environ environ;
  environ.set("TMPDIR", folder);
  return environ;
}

// A folder that must be empty again at the end.
class Parent {
 public:
  Parent() { REQUIRE(::mkdtemp(path_.data()) != nullptr); }

  ~Parent() { CHECK(::rmdir(path_.data()) == 0); }

  [[nodiscard]] std::string path() const { return path_.data(); }

  [[nodiscard]] Environ as_tmpdir() const { return with_tmpdir(path()); }

 private:
  std::array<char, 32> path_{"/tmp/muster_run_dir_XXXXXX"};
};

LaunchConfig config_of(const std::string& log_dir = "") {
  LaunchConfig config;
  config.rdzv_id = "job";
  config.log_dir = log_dir;
  return config;
}

}  // namespace

TEST_CASE("run dir: without logs it is temporary and is removed with its error files") {
  const Parent parent;
  auto dir = RunDir::make(config_of(), parent.as_tmpdir(), "abcdefghij");
  REQUIRE(dir);
  CHECK(dir->path() == parent.path() + "/muster_job_abcdefgh");
  REQUIRE(dir->make_attempt(0, 2));
  REQUIRE(write_file(dir->path() + "/attempt_0/1/error.json", "{}"));
  CHECK_FALSE(dir->clean_up(true));
  CHECK_FALSE(exists(dir->path()));
}

TEST_CASE("run dir: removes the pipes of PyTorch's flight recorders, keeps PyTorch's own dumps") {
  const Parent parent;
  for (const std::string& logs : {std::string(), parent.path() + "/logs"}) {
    auto dir = RunDir::make(config_of(logs), parent.as_tmpdir(), "abcdefgh");
    REQUIRE(dir);
    REQUIRE(dir->make_attempt(0, 1));
    const std::string attempt = dir->path() + "/attempt_0/";
    CHECK(dir->place_of_pipes(0) + "/" == attempt);
    CHECK(dir->place_of_pipes(1).empty());  // the folder does not exist
    CHECK(RunDir().place_of_pipes(0).empty());
    REQUIRE(::mkfifo((attempt + "nccl_pipe_0.pipe").c_str(), 0600) == 0);
    REQUIRE(::mkfifo((attempt + "torch_flights_12.pipe").c_str(), 0600) == 0);
    REQUIRE(write_file(attempt + "torch_flights_12", "late"));
    REQUIRE(write_file(attempt + "nccl_trace_rank_0", "dump"));
    CHECK(dir->clean_up(true));
    CHECK_FALSE(exists(attempt + "nccl_pipe_0.pipe"));
    CHECK_FALSE(exists(attempt + "torch_flights_12.pipe"));
    CHECK_FALSE(exists(attempt + "torch_flights_12"));
    CHECK(exists(attempt + "nccl_trace_rank_0"));
    std::filesystem::remove_all(logs.empty() ? dir->path() : logs);
  }
}

TEST_CASE("run dir: not removed if another process has put files there") {
  const Parent parent;
  auto dir = RunDir::make(config_of(), parent.as_tmpdir(), "abcdefgh");
  REQUIRE(dir);
  REQUIRE(dir->make_attempt(0, 1));
  const std::string note = dir->path() + "/attempt_0/0/note";
  REQUIRE(write_file(note, "mine"));
  CHECK(dir->clean_up(true));
  CHECK(exists(note));
  ::unlink(note.c_str());
  CHECK_FALSE(dir->clean_up(true));
}

TEST_CASE("run dir: in --log-dir it is kept, with folders for each attempt and rank") {
  const Parent parent;
  const std::string logs = parent.path() + "/a/b";
  auto dir = RunDir::make(config_of(logs), Environ(), "abcdefgh");
  REQUIRE(dir);
  CHECK(dir->path() == logs + "/job_abcdefgh");
  REQUIRE(dir->make_attempt(0, 1));
  REQUIRE(dir->make_attempt(1, 1));
  CHECK(dir->clean_up(true));
  for (const char* folder :
       {"/attempt_0/0", "/attempt_0", "/attempt_1/0", "/attempt_1", "", "/..", "/../.."}) {
    INFO(folder);
    // Each folder exists, and becomes empty once the previous ones are removed.
    const std::string path = std::string(folder) == "/.."      ? logs
                             : std::string(folder) == "/../.." ? parent.path() + "/a"
                                                               : dir->path() + folder;
    CHECK(::rmdir(path.c_str()) == 0);
  }
}

TEST_CASE("run dir: none if logs are disabled or no folder can be created") {
  LaunchConfig disabled = config_of();
  disabled.logs_disabled = true;
  REQUIRE(RunDir::make(disabled, Environ(), "abcdefgh"));
  CHECK(RunDir::make(disabled, Environ(), "abcdefgh")->path().empty());
  const Environ nowhere = with_tmpdir("/no/such/folder");
  REQUIRE(RunDir::make(config_of(), nowhere, "abcdefgh"));
  CHECK(RunDir::make(config_of(), nowhere, "abcdefgh")->path().empty());
}

TEST_CASE("run dir: an existing temporary folder belongs to another user and is not used") {
  const Parent parent;
  const std::string taken = parent.path() + "/muster_job_abcdefgh";
  REQUIRE(::mkdir(taken.c_str(), 0777) == 0);
  const auto without_files = RunDir::make(config_of(), parent.as_tmpdir(), "abcdefghij");
  REQUIRE(without_files);
  CHECK(without_files->path().empty());
  LaunchConfig with_files = config_of();
  with_files.redirects.all = 3;
  const auto dir = RunDir::make(with_files, parent.as_tmpdir(), "abcdefghij");
  REQUIRE_FALSE(dir);
  CHECK(dir.error().message.ends_with("File exists"));
  REQUIRE(::rmdir(taken.c_str()) == 0);
}

TEST_CASE("run dir: an error if requested output files cannot be created") {
  LaunchConfig config = config_of();
  config.redirects.all = 3;
  CHECK_FALSE(RunDir::make(config, with_tmpdir("/no/such/folder"), "abcdefgh"));
  const auto file = RunDir::make(config_of("/dev/zero"), Environ(), "abcdefgh");
  REQUIRE_FALSE(file);
  CHECK(file.error().code == Errc::usage);
}

TEST_CASE("run dir: a removed folder is recreated at the same path, or else in another folder") {
  const Parent parent;
  const std::string place = parent.path() + "/muster_job_abcdefgh";
  auto again = RunDir::make_again(config_of(), parent.as_tmpdir(), "abcdefghij", 1);
  CHECK(again.path() == place);
  CHECK(exists(place + "/attempt_1/0"));
  // The folder exists but cannot hold more files. Uses another one, because this one may belong to
  // another user.
  auto elsewhere = RunDir::make_again(config_of(), parent.as_tmpdir(), "abcdefghij", 2);
  CHECK(elsewhere.path() == "/tmp/muster_job_abcdefgh");
  CHECK(exists(elsewhere.path() + "/attempt_2/0"));
  CHECK_FALSE(elsewhere.clean_up(true));
  CHECK_FALSE(again.clean_up(true));
}

TEST_CASE("run dir: recreates a removed --log-dir, or replaces it if that is impossible") {
  const Parent parent;
  const std::string logs = parent.path() + "/logs";
  auto dir = RunDir::make(config_of(logs), Environ(), "abcdefgh");
  REQUIRE(dir);
  std::filesystem::remove_all(logs);
  CHECK_FALSE(dir->make_attempt(1, 1));
  auto again = RunDir::make_again(config_of(logs), Environ(), "abcdefgh", 1);
  CHECK(again.path() == dir->path());
  CHECK(exists(again.path() + "/attempt_1/0"));
  std::filesystem::remove_all(logs);
  CHECK(again.clean_up(true));  // kept for the report
  CHECK(exists(again.path()));
  std::filesystem::remove_all(logs);
  REQUIRE(write_file(logs, "a file\n"));
  auto elsewhere = RunDir::make_again(config_of(logs), parent.as_tmpdir(), "abcdefgh", 1);
  CHECK(elsewhere.path() == parent.path() + "/muster_job_abcdefgh");
  CHECK(elsewhere.clean_up(false));  // logs were requested, so they stay
  std::filesystem::remove_all(elsewhere.path());
  ::unlink(logs.c_str());
}

TEST_CASE("run dir: a removed temporary folder is not reported") {
  const Parent parent;
  auto dir = RunDir::make(config_of(), parent.as_tmpdir(), "abcdefgh");
  REQUIRE(dir);
  REQUIRE(::rmdir(dir->path().c_str()) == 0);
  CHECK_FALSE(dir->clean_up(true));
}
