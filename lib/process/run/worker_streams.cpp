// SPDX-License-Identifier: Apache-2.0
#include "process/run/worker_streams.hpp"

namespace muster {

Result<ChildStreams> open_streams(OutputPump& pump, const ProcessSpec& spec) {
  ChildStreams streams;
  if (spec.standard_input == InputKind::none) {
    const auto null = pump.empty_input();
    MUSTER_RETURN_IF_ERROR(null);
    streams.in = *null;
  }
  const auto out = pump.open_stream(spec.local_rank, 1, spec.standard_output);
  MUSTER_RETURN_IF_ERROR(out);
  const auto err = pump.open_stream(spec.local_rank, 2, spec.standard_error);
  MUSTER_RETURN_IF_ERROR(err);
  streams.out = *out;
  streams.err = *err;
  return streams;
}

}  // namespace muster
