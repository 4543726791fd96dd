// SPDX-License-Identifier: Apache-2.0
// MungeService: runs MUNGE's programs, `munge` and `unmunge`, a few at a time and each with a
// timeout. A static binary cannot load libmunge, and munged's protocol is undocumented. Resource;
// runs on the loop's thread, which must have a LinuxRunner.
#pragma once

#include "process/start/helper_process.hpp"
#include "trust/credential_service.hpp"
#include "trust/munge.hpp"

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace muster {

class MungeService final : public CredentialService {
 public:
  // `environment` is passed to the programs, which are looked up in its PATH.
  MungeService(asio::io_context& loop, std::vector<std::string> environment);

  // Tests whether MUNGE works for this user: encodes a secret and decodes it again.
  void prove(std::function<void(Result<void>)> done);

  void seal(const std::string& secret, Done done) override;
  void open(const std::string& credential, Done done) override;

 private:
  using Taken = std::function<void(const std::string& printed)>;

  struct Work {
    MungeCall call;
    Taken taken;
  };

  void begin_some();
  void ended(std::uint64_t number, const Taken& taken, const std::string& printed);

  asio::io_context& loop_;
  std::vector<std::string> environment_;
  std::deque<Work> waiting_;
  std::map<std::uint64_t, std::unique_ptr<HelperProcess>> running_;
  std::uint64_t next_ = 0;
};

}  // namespace muster
