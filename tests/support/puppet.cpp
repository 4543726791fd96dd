// SPDX-License-Identifier: Apache-2.0
// puppet: a worker that executes its words one after the other, for the tests of process/, agent/
// and the whole program. It is a separate program, so that tests use real processes. Verbs:
//   exit N | signal N            exits with N; kills itself with signal N
//   say TEXT | warn TEXT         a line on standard output, on standard error
//   put TEXT | complain TEXT     the same without the newline
//   lines N | rubbish N          N numbered lines; N bytes of every value, seeded by RANK
//   mix N                        N numbered lines, written in pieces, with garbage lines between
//   flood BYTES                  this number of bytes in lines, as fast as possible
//   getenv NAME                  the variable's value as a line; "(unset)" if there is none
//   ignore NAME | handle NAME    a signal; a handled one prints "got NAME" and ends a `wait`
//   mask | fds | stdin | pids    blocked and ignored signals; open descriptors; what it reads;
//                                pid, parent, group and session
//   fork { WORDS }               executes the words in a child that stays in the group
//   fork-setsid { WORDS }        in a child in a separate session
//   daemon { WORDS }             in a double-forked grandchild in a separate session
//   setsid                       leaves session and group
//   stop | wait | sleep MS       stops itself; waits for a handled signal (or forever); sleeps
//   wait-file PATH | touch PATH  waits until a file exists; creates one
//   die-from-memory MIB          allocates and touches this amount of memory
//   kill PID                     sends SIGKILL to another process
#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

namespace {

using Words = std::vector<std::string>;

volatile std::sig_atomic_t g_got = 0;

void on_signal(int signo) {
  g_got = signo;
}

const std::map<std::string, int, std::less<>>& signals() {
  static const std::map<std::string, int, std::less<>> kSignals = {{"TERM", SIGTERM},
                                                                   {"INT", SIGINT},
                                                                   {"HUP", SIGHUP},
                                                                   {"QUIT", SIGQUIT},
                                                                   {"USR1", SIGUSR1},
                                                                   {"USR2", SIGUSR2},
                                                                   {"PIPE", SIGPIPE},
                                                                   {"CONT", SIGCONT},
                                                                   {"CHLD", SIGCHLD}};
  return kSignals;
}

// Writes everything, however much the pipe accepts at a time.
void put(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const auto count = ::write(fd, bytes.data(), bytes.size());
    if (count < 0 && errno != EINTR) {
      std::_Exit(99);
    }
    bytes.remove_prefix(static_cast<std::size_t>(std::max<ssize_t>(count, 0)));
  }
}

std::string rank() {
  const char* text = std::getenv("RANK");
  return text == nullptr ? "0" : text;
}

std::string numbered_line(int number) {
  return "rank " + rank() + " line " + std::to_string(number) + " of a numbered many\n";
}

// Bytes that are not text, without a newline; the same in each run of a rank.
std::string rubbish(std::size_t size, unsigned seed) {
  std::string bytes;
  for (unsigned state = seed * 2654435761U + 12345U; bytes.size() < size;) {
    state = state * 1664525U + 1013904223U;
    const char byte = static_cast<char>(state >> 24U);
    bytes += byte == '\n' ? 'n' : byte;
  }
  return bytes;
}

void mix(int count) {
  const auto seed = static_cast<unsigned>(std::atoi(rank().c_str())) + 1U;
  for (int i = 0; i < count; ++i) {
    const auto line = numbered_line(i);
    const auto cut = static_cast<std::size_t>(i) % line.size();
    put(1, line.substr(0, cut));
    put(1, line.substr(cut));
    if (i % 100 == 7) {
      put(1, "rubbish " + rubbish(300, seed + static_cast<unsigned>(i)) + "\n");
    }
  }
}

void flood(long bytes) {
  std::string block;
  while (block.size() < 64 * 1024) {
    block += numbered_line(static_cast<int>(block.size()));
  }
  for (long done = 0; done < bytes; done += static_cast<long>(block.size())) {
    put(1, block);
  }
}

void show_signals() {
  sigset_t mask;
  ::sigprocmask(SIG_SETMASK, nullptr, &mask);
  std::string blocked = "blocked:";
  std::string ignored = "ignored:";
  for (const auto& [name, signo] : signals()) {
    struct sigaction action {};

    ::sigaction(signo, nullptr, &action);
    blocked += sigismember(&mask, signo) == 1 ? " " + name : "";
    ignored += action.sa_handler == SIG_IGN ? " " + name : "";
  }
  put(1, blocked + "\n" + ignored + "\n");
}

void show_descriptors() {
  std::string open = "open:";
  for (int fd = 0; fd < 1024; ++fd) {
    open += ::fcntl(fd, F_GETFD) >= 0 ? " " + std::to_string(fd) : "";
  }
  put(1, open + "\n");
}

void show_stdin() {
  std::array<char, 4096> buffer{};
  const auto count = ::read(0, buffer.data(), buffer.size());
  put(1, "read " + std::to_string(count) + "\n");
}

// A signal that arrives between check and wait is not lost, because it stays blocked until the
// wait.
void wait_for_signal() {
  sigset_t all;
  sigset_t before;
  ::sigfillset(&all);
  ::sigprocmask(SIG_BLOCK, &all, &before);
  while (g_got == 0) {
    ::sigsuspend(&before);
  }
  ::sigprocmask(SIG_SETMASK, &before, nullptr);
  for (const auto& [name, signo] : signals()) {
    if (signo == g_got) {
      put(1, "got " + name + "\n");
    }
  }
  g_got = 0;
}

void set_signal(const std::string& name, bool handle) {
  struct sigaction action {};

  if (handle) {
    action.sa_handler = on_signal;
  } else {
    action.sa_handler = SIG_IGN;
  }
  ::sigaction(signals().at(name), &action, nullptr);
}

void fill_memory(long mib) {
  std::vector<char*> blocks;
  for (long i = 0; i < mib; ++i) {
    char* block = static_cast<char*>(std::malloc(1024 * 1024));
    std::memset(block, 1, 1024 * 1024);
    blocks.push_back(block);
  }
  put(1, "held " + std::to_string(blocks.size()) + "\n");
}

void wait_for_file(const std::string& path) {
  while (::access(path.c_str(), F_OK) != 0) {
    ::usleep(1000);  // a puppet may poll; the tests do not
  }
}

void play(const Words& words);

// The words between "{" at `at` and its "}"; moves `at` past it.
Words block(const Words& words, std::size_t& at) {
  Words inner;
  int depth = 0;
  for (; at < words.size(); ++at) {
    depth += words[at] == "{" ? 1 : 0;
    depth -= words[at] == "}" ? 1 : 0;
    if (depth == 0) {
      break;
    }
    inner.push_back(words[at]);
  }
  ++at;
  inner.erase(inner.begin());
  return inner;
}

void in_child(const Words& words, bool own_session, bool forked_twice) {
  const pid_t child = ::fork();
  if (child != 0) {
    if (forked_twice) {  // so that nobody counts the process in the middle
      while (::waitpid(child, nullptr, 0) < 0 && errno == EINTR) {
      }
    }
    return;
  }
  if (own_session) {
    ::setsid();
  }
  if (forked_twice && ::fork() != 0) {
    std::_Exit(0);
  }
  play(words);
  std::_Exit(0);
}

[[noreturn]] void end_by(int signo) {
  ::signal(signo, SIG_DFL);
  ::raise(signo);
  ::pause();
  std::_Exit(98);
}

void show_ids() {
  put(1,
      "pid " + std::to_string(::getpid()) + " parent " + std::to_string(::getppid()) + " group " +
          std::to_string(::getpgrp()) + " session " + std::to_string(::getsid(0)) + "\n");
}

// Executes a verb without arguments; false if there is no such verb.
bool act(const std::string& verb) {
  static const std::map<std::string, void (*)(), std::less<>> kVerbs = {
      {"mask", show_signals},
      {"fds", show_descriptors},
      {"stdin", show_stdin},
      {"pids", show_ids},
      {"wait", wait_for_signal},
      {"setsid", [] { ::setsid(); }},
      {"stop", [] { ::raise(SIGSTOP); }}};
  const auto found = kVerbs.find(verb);
  if (found == kVerbs.end()) {
    return false;
  }
  found->second();
  return true;
}

// Executes a verb with one argument.
bool act_on(const std::string& verb, const std::string& word) {
  using Act = void (*)(const std::string&);
  static const std::map<std::string, Act, std::less<>> kVerbs = {
      {"exit", [](const std::string& w) { std::_Exit(std::atoi(w.c_str())); }},
      {"signal", [](const std::string& w) { end_by(std::atoi(w.c_str())); }},
      {"say", [](const std::string& w) { put(1, w + "\n"); }},
      {"warn", [](const std::string& w) { put(2, w + "\n"); }},
      {"put", [](const std::string& w) { put(1, w); }},
      {"complain", [](const std::string& w) { put(2, w); }},
      {"lines",
       [](const std::string& w) {
         for (int i = 0; i < std::atoi(w.c_str()); ++i) {
           put(1, numbered_line(i));
         }
       }},
      {"rubbish",
       [](const std::string& w) {
         put(1, rubbish(static_cast<std::size_t>(std::atol(w.c_str())), 1));
       }},
      {"mix", [](const std::string& w) { mix(std::atoi(w.c_str())); }},
      {"flood", [](const std::string& w) { flood(std::atol(w.c_str())); }},
      {"getenv",
       [](const std::string& w) {
         const char* value = std::getenv(w.c_str());
         put(1, std::string(value == nullptr ? "(unset)" : value) + "\n");
       }},
      {"ignore", [](const std::string& w) { set_signal(w, false); }},
      {"handle", [](const std::string& w) { set_signal(w, true); }},
      {"sleep",
       [](const std::string& w) { ::usleep(1000U * static_cast<unsigned>(std::atoi(w.c_str()))); }},
      {"wait-file", wait_for_file},
      {"touch", [](const std::string& w) { ::close(::open(w.c_str(), O_CREAT | O_WRONLY, 0666)); }},
      {"kill",
       [](const std::string& w) { ::kill(static_cast<pid_t>(std::atoi(w.c_str())), SIGKILL); }},
      {"die-from-memory", [](const std::string& w) { fill_memory(std::atol(w.c_str())); }}};
  const auto found = kVerbs.find(verb);
  if (found == kVerbs.end()) {
    return false;
  }
  found->second(word);
  return true;
}

void play(const Words& words) {
  for (std::size_t at = 0; at < words.size();) {
    const std::string& verb = words[at++];
    if (verb == "fork" || verb == "fork-setsid" || verb == "daemon") {
      in_child(block(words, at), verb != "fork", verb == "daemon");
    } else if (!act(verb) && (at >= words.size() || !act_on(verb, words[at++]))) {
      put(2, "puppet: no such verb: " + verb + "\n");
      std::_Exit(97);
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  play(Words(argv + 1, argv + argc));
  return 0;
}
