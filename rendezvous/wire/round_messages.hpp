// SPDX-License-Identifier: Apache-2.0
// RoundMessage: all messages about rounds between the nodes of one job. Values.
#pragma once

#include "rendezvous/wire/coordinator_messages.hpp"
#include "rendezvous/wire/inquiry_messages.hpp"
#include "rendezvous/wire/mend_messages.hpp"
#include "rendezvous/wire/node_messages.hpp"
#include "rendezvous/wire/round_info.hpp"
#include "rendezvous/wire/vouch_messages.hpp"
#include "rendezvous/wire/waits_messages.hpp"

#include <variant>

namespace muster {

using RoundMessage = std::variant<Hello,
                                  Rounds,
                                  Beat,
                                  Ready,
                                  Accept,
                                  Failed,
                                  Details,
                                  Stopping,
                                  Finished,
                                  Leave,
                                  Welcome,
                                  Refuse,
                                  Redirect,
                                  Claim,
                                  Pong,
                                  RollCall,
                                  Propose,
                                  Start,
                                  Regroup,
                                  Dismiss,
                                  Close,
                                  ShowRounds,
                                  Vouch,
                                  Vouched,
                                  Carry,
                                  Inquire,
                                  Look,
                                  Looked,
                                  Judged,
                                  Waited,
                                  Lacking,
                                  Mended,
                                  Mend,
                                  NoMend>;

}  // namespace muster
