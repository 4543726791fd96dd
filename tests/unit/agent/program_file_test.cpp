// SPDX-License-Identifier: Apache-2.0
#include "agent/workers/program_file.hpp"

#include "support/catch.hpp"

#include <filesystem>
#include <fstream>
#include <string>

#include <stdlib.h>

using namespace muster;

namespace {

void begin_round(ProgramFile& file) {
  JobEvent event;
  event.what = event::RoundBegun{};
  file.take(event);
}

ProgramFile file_of(ProgramKind kind, const std::string& name) {
  Program program;
  program.kind = kind;
  program.name = name;
  return ProgramFile(program);
}

void write(const std::string& path, const std::string& text) {
  std::ofstream(path) << text;
}

}  // namespace

TEST_CASE("program file: it is compared with the file at the start of the workers") {
  std::string folder = std::filesystem::temp_directory_path() / "muster-program-XXXXXX";
  REQUIRE(::mkdtemp(folder.data()) != nullptr);
  const std::string path = folder + "/train.py";
  write(path, "one");
  ProgramFile file = file_of(ProgramKind::python_script, path);
  begin_round(file);
  CHECK(file.change().empty());
  SECTION("its text has changed") {
    write(path, "longer");
    CHECK(file.change() == path + " has changed since the workers were started");
    begin_round(file);
    CHECK(file.change().empty());
  }
  SECTION("another file with the same size has its name") {
    write(path + ".new", "two");
    std::filesystem::last_write_time(path + ".new", std::filesystem::file_time_type{});
    std::filesystem::rename(path + ".new", path);
    CHECK_FALSE(file.change().empty());
  }
  SECTION("it was copied without a change") {
    std::filesystem::copy_file(path, path + ".new");
    std::filesystem::last_write_time(path + ".new", std::filesystem::last_write_time(path));
    std::filesystem::rename(path + ".new", path);
    CHECK(file.change().empty());
  }
  SECTION("a file server that does not answer is not a change") {
    const std::string loop = folder + "/loop";
    std::filesystem::create_symlink("loop", loop);
    ProgramFile unknown = file_of(ProgramKind::python_script, loop);
    begin_round(unknown);
    std::filesystem::remove(loop);
    CHECK(unknown.change().empty());
  }
  SECTION("it is gone") {
    std::filesystem::remove(path);
    CHECK_FALSE(file.change().empty());
  }
  std::filesystem::remove_all(folder);
}

TEST_CASE("program file: modules and programs in PATH have no known file") {
  const auto kind = GENERATE(ProgramKind::python_module, ProgramKind::executable);
  ProgramFile file = file_of(kind, "train");
  begin_round(file);
  CHECK(file.change().empty());
}
