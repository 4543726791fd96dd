// SPDX-License-Identifier: Apache-2.0
// The completion scripts, as interpreted by the shells themselves.
#include "config/options/help.hpp"
#include "support/catch.hpp"

#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include <unistd.h>

using namespace muster;

namespace {

// A file with this text, removed at the end.
class TextFile {
 public:
  explicit TextFile(const std::string& text) {
    path_ = (std::filesystem::temp_directory_path() / "muster-completion-XXXXXX").string();
    const int fd = ::mkstemp(path_.data());
    REQUIRE(fd >= 0);
    ::close(fd);
    std::ofstream(path_) << text;
  }

  ~TextFile() { (void)::unlink(path_.c_str()); }

  TextFile(const TextFile&) = delete;
  TextFile& operator=(const TextFile&) = delete;

  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// The output of a command, which must exit with 0.
std::string output_of(const std::string& command) {
  std::FILE* pipe = ::popen(command.c_str(), "r");
  REQUIRE(pipe != nullptr);
  std::string out;
  std::array<char, 4096> block{};
  while (const std::size_t got = std::fread(block.data(), 1, block.size(), pipe)) {
    out.append(block.data(), got);
  }
  CHECK(::pclose(pipe) == 0);
  return out;
}

// What bash suggests for these arguments, the last of which is being typed.
std::string offered(const TextFile& script, const std::string& text) {
  return output_of("bash -c 'source \"$0\"; COMP_WORDS=(" + text +
                   "); COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _muster; echo \"${COMPREPLY[*]}\"' " +
                   script.path());
}

}  // namespace

TEST_CASE("completion: bash offers options, their values, and after the program only files") {
  const TextFile script(bash_completion());
  CHECK(offered(script, "muster --stdi") == "--stdin-rank\n");
  CHECK(offered(script, "muster --nproc-per-node = g") == "gpu\n");
  CHECK(offered(script, "muster --nproc-per-node a") == "auto\n");
  CHECK(offered(script, "muster -t \"\"") == "0 1 2 3\n");
  CHECK(offered(script, "muster --tee 3 --explain = p") == "plan\n");
  CHECK(offered(script, "muster --tee = 3 train.py --stdi") == "\n");
  CHECK(offered(script, "muster --tee 3 train.py --stdi") == "\n");
}

TEST_CASE("completion: bash continues in the spelling with underscores") {
  const TextFile script(bash_completion());
  CHECK(offered(script, "muster --nproc_") == "--nproc_per_node\n");
  CHECK(offered(script, "muster --log_l") == "--log_line_prefix_template --log_level\n");
  CHECK(offered(script, "muster --nproc_per_node = g") == "gpu\n");
  CHECK(offered(script, "muster --nproc_per_node a") == "auto\n");
  CHECK(offered(script, "muster --nproc_per_node 2 train.py --stdi") == "\n");
  CHECK(offered(script, "muster --banana_") == "\n");
}

TEST_CASE("completion: zsh accepts its script") {
  if (output_of("command -v zsh || true").empty()) {
    WARN("skipped: zsh is not installed");
    return;
  }
  const TextFile script(zsh_completion());
  CHECK(output_of("zsh -n " + script.path()).empty());
  // The arguments of _arguments, depending on whether an underscore was typed.
  const auto specs = [&](const std::string& typed) {
    return output_of("zsh -fc 'compdef() { :; }; _arguments() { print -l -- $@; }; words=(muster " +
                     typed + "); source " + script.path() + "; _muster'");
  };
  CHECK(specs("--nproc").find("--nproc-per-node=[") != std::string::npos);
  CHECK(specs("--nproc").find("--nproc_per_node=[") == std::string::npos);
  CHECK(specs("--nproc_").find("--nproc_per_node=[") != std::string::npos);
}
