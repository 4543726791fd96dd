// SPDX-License-Identifier: Apache-2.0
// What becomes of the zygote. Called on the loop's thread: from the loop, or from inside the call
// that asked for one.
#pragma once

#include <string>

namespace muster {

class ZygoteObserver {
 public:
  virtual ~ZygoteObserver() = default;
  // Workers whose spec says `warm` are forked from it from now on.
  virtual void on_zygote_ready() = 0;
  // There is none any more, and all workers are started cold.
  virtual void on_zygote_lost(const std::string& why) = 0;
  // There is none, because the user has named a module that does not exist.
  virtual void on_unknown_module(const std::string& what) = 0;
};

}  // namespace muster
