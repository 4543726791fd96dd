// SPDX-License-Identifier: Apache-2.0
#include "collective/transport/request.hpp"

#include <fmt/core.h>

namespace muster::collective {
namespace {

bool has_op(Kind kind) {
  return kind == Kind::all_reduce || kind == Kind::reduce || kind == Kind::reduce_scatter;
}

}  // namespace

std::string Request::describe() const {
  std::string text = fmt::format("{} #{}", name_of(kind), seq);
  if (kind == Kind::barrier) {
    return text;
  }
  if (has_op(kind)) {
    text += fmt::format(" {}", name_of(op));
  }
  text += fmt::format(" {}[{}]", name_of(dtype), count);
  if (kind == Kind::send || kind == Kind::recv) {
    text += fmt::format(" {} rank {}", kind == Kind::send ? "to" : "from", root);
  } else if (root >= 0) {
    text += fmt::format(" root {}", root);
  }
  return text;
}

}  // namespace muster::collective
