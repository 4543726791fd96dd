// SPDX-License-Identifier: Apache-2.0
// Receives the zygote's status. Called on the loop's thread, from the loop or from within the call
// that requested a zygote.
#pragma once

#include <string>

namespace muster {

class ZygoteObserver {
 public:
  virtual ~ZygoteObserver() = default;
  // From now on, workers whose spec has `warm` are forked from the zygote.
  virtual void on_zygote_ready() = 0;
  // A new zygote imports the modules again. This may happen at any time.
  virtual void on_zygote_replaced(const std::string& why) = 0;
  // There is no longer a zygote, and all workers are started cold.
  virtual void on_zygote_lost(const std::string& why) = 0;
  // There is no zygote because the user named a module that does not exist.
  virtual void on_unknown_module(const std::string& what) = 0;
};

}  // namespace muster
