// SPDX-License-Identifier: Apache-2.0
// FakeDns: a small DNS server for tests, in a thread, on UDP port 53 of a loopback address in the
// test's own network namespace. Answers from a table, or stays silent.
#pragma once

#include <atomic>
#include <map>
#include <string>
#include <thread>
#include <vector>

struct DnsTable {
  std::map<std::string, std::vector<std::string>> addresses = {};  // name → numeric, both kinds
  bool silent = false;     // reads all queries and answers none
  bool drop_aaaa = false;  // answers only A queries
};

class FakeDns {
 public:
  FakeDns(const std::string& address, DnsTable table);
  FakeDns(const FakeDns&) = delete;
  FakeDns& operator=(const FakeDns&) = delete;
  ~FakeDns();

  [[nodiscard]] int questions() const { return questions_; }

 private:
  void serve();

  DnsTable table_;
  int socket_ = -1;
  int stop_ = -1;
  std::atomic<int> questions_ = 0;
  std::thread thread_;
};
