// SPDX-License-Identifier: Apache-2.0
#include "hang/gather/torch_recorders.hpp"

#include "base/fd.hpp"
#include "support/catch.hpp"

#include <asio/io_context.hpp>
#include <asio/posix/stream_descriptor.hpp>

#include <algorithm>
#include <array>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

namespace muster::hang {
namespace {

class TempDir {
 public:
  TempDir() { REQUIRE(::mkdtemp(path_.data()) != nullptr); }

  ~TempDir() { std::filesystem::remove_all(path_); }

  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;

  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_ = "/tmp/muster-hang-XXXXXX";
};

// A process with this environment that does nothing but wait for more input to copy.
class Idler {
 public:
  explicit Idler(const std::vector<std::string>& environment) {
    std::vector<char*> block;
    for (const std::string& one : environment) {
      block.push_back(const_cast<char*>(one.c_str()));
    }
    block.push_back(nullptr);
    auto there = make_pipe();
    auto back = make_pipe();
    REQUIRE((there && back));
    pid_ = ::fork();
    if (pid_ == 0) {
      std::array<const char*, 2> argv{"cat", nullptr};
      ::dup2(there->read.get(), STDIN_FILENO);
      ::dup2(back->write.get(), STDOUT_FILENO);
      ::execve("/bin/cat", const_cast<char**>(argv.data()), block.data());
      ::_exit(1);
    }
    // It is running once it answers. Before that, even after exec has closed descriptors, the
    // kernel may not show its environment yet.
    char byte = 'x';
    input_ = std::move(there->write);
    REQUIRE(::write(input_.get(), &byte, 1) == 1);
    back->write.reset();
    REQUIRE(::read(back->read.get(), &byte, 1) == 1);
  }

  ~Idler() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }

  Idler(const Idler&) = delete;
  Idler& operator=(const Idler&) = delete;

  [[nodiscard]] pid_t pid() const { return pid_; }

 private:
  pid_t pid_ = 0;
  UniqueFd input_;
};

// Answers on a named pipe with a dump, like PyTorch's thread.
class Answerer {
 public:
  Answerer(asio::io_context& loop, const std::string& pipe, std::string dump, std::string bytes)
      : pipe_(loop), dump_(std::move(dump)), bytes_(std::move(bytes)) {
    REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
    pipe_.assign(::open(pipe.c_str(), O_RDWR | O_NONBLOCK | O_CLOEXEC));
    pipe_.async_wait(asio::posix::stream_descriptor::wait_read, [this](const std::error_code& e) {
      if (!e && !bytes_.empty()) {
        std::ofstream(dump_, std::ios::binary) << bytes_;
      }
    });
  }

  void stop() { pipe_.close(); }

 private:
  asio::posix::stream_descriptor pipe_;
  std::string dump_;
  std::string bytes_;
};

std::string recorded(const std::string& name) {
  std::ifstream file(std::string(MUSTER_FIXTURES) + "/flights/" + name, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

RankEvidence rank_of(int rank, pid_t pid) {
  RankEvidence out{.rank = rank};
  out.processes.push_back({.pid = pid, .state = 'S'});
  return out;
}

}  // namespace

TEST_CASE("queries PyTorch's recorders through their pipes, reads and removes their dumps") {
  const TempDir folder;
  const std::string place = folder.path() + "/torch_";
  const Idler worker({"MUSTER_TORCH_FLIGHTS=" + place,
                      "TORCH_NCCL_DEBUG_INFO_PIPE_FILE=" + folder.path() + "/pipe_",
                      "TORCH_NCCL_DEBUG_INFO_TEMP_FILE=" + folder.path() + "/trace_"});
  const std::string own = place + std::to_string(worker.pid());
  asio::io_context loop;
  Answerer gloo(loop, own + ".pipe", own, recorded("gloo-1.pickle"));
  Answerer nccl(
      loop, folder.path() + "/pipe_1.pipe", folder.path() + "/trace_1", recorded("nccl-1.pickle"));
  TorchRecorders recorders(loop);
  std::vector<RankEvidence> ranks{rank_of(1, worker.pid())};
  int calls = 0;
  recorders.ask(ranks, [&] {
    ++calls;
    gloo.stop();
    nccl.stop();
  });
  loop.run();
  CHECK(calls == 1);
  recorders.add_positions(ranks);
  std::vector<std::string> groups;
  for (const Position& at : ranks[0].positions) {
    groups.push_back(at.group);
  }
  std::ranges::sort(groups);
  CHECK(groups == std::vector<std::string>{
                      "default_pg (gloo)", "default_pg (nccl)", "group 7 (nccl) of 0,1"});
  CHECK(recorders.gaps().empty());
  CHECK(!std::filesystem::exists(own));
  CHECK(!std::filesystem::exists(folder.path() + "/trace_1"));
}

TEST_CASE("does not query pipes without a reader, and reports invalid dumps") {
  const TempDir folder;
  const Idler silent({"TORCH_NCCL_DEBUG_INFO_PIPE_FILE=" + folder.path() + "/none_",
                      "TORCH_NCCL_DEBUG_INFO_TEMP_FILE=" + folder.path() + "/none_"});
  const Idler confused({"TORCH_NCCL_DEBUG_INFO_PIPE_FILE=" + folder.path() + "/pipe_",
                        "TORCH_FR_DUMP_TEMP_FILE=" + folder.path() + "/theirs_"});
  asio::io_context loop;
  Answerer answerer(loop, folder.path() + "/pipe_2.pipe", folder.path() + "/theirs_2", "rubbish");
  TorchRecorders recorders(loop);
  const std::vector<RankEvidence> ranks{rank_of(0, silent.pid()), rank_of(2, confused.pid())};
  recorders.ask(ranks, [&] { answerer.stop(); });
  loop.run();
  CHECK(recorders.gaps() ==
        std::vector<std::string>{"cannot read PyTorch's flight recorder (nccl) of rank 2: "
                                 "unexpected data at byte 0"});
  CHECK(std::filesystem::exists(folder.path() + "/theirs_2"));  // it belongs to another process
}

TEST_CASE("skips a recorder that does not answer in time", "[slow]") {
  const TempDir folder;
  const Idler worker({"TORCH_NCCL_DEBUG_INFO_PIPE_FILE=" + folder.path() + "/pipe_",
                      "TORCH_NCCL_DEBUG_INFO_TEMP_FILE=" + folder.path() + "/trace_"});
  asio::io_context loop;
  Answerer answerer(loop, folder.path() + "/pipe_0.pipe", "", "");
  TorchRecorders recorders(loop);
  recorders.ask({rank_of(0, worker.pid())}, [&] { answerer.stop(); });
  loop.run();
  CHECK(recorders.gaps() ==
        std::vector<std::string>{"no answer from PyTorch's flight recorder on rank 0"});
}

}  // namespace muster::hang
