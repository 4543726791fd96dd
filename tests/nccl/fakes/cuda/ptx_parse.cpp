// SPDX-License-Identifier: Apache-2.0
#include "nccl/fakes/cuda/ptx_parse.hpp"

#include "nccl/fakes/cuda/ptx_forms.hpp"

#include <charconv>
#include <map>
#include <span>

namespace muster::fake {
namespace {

struct Token {
  std::string_view text;
  unsigned line = 0;
};

// Punctuation forms separate tokens. The last token is "the end".
std::vector<Token> split_tokens(std::string_view text) {
  constexpr std::string_view kMarks = "(){}[]<>,;:@";
  std::vector<Token> tokens;
  unsigned line = 1;
  while (!text.empty()) {
    const bool mark = kMarks.contains(text.front());
    const auto end = text.find_first_of("(){}[]<>,;:@ \n");
    const std::size_t length = mark ? 1 : std::min(end, text.size());
    if (length > 0) {
      tokens.push_back({text.substr(0, length), line});
    } else {
      line += text.front() == '\n' ? 1U : 0U;
    }
    text.remove_prefix(std::max<std::size_t>(length, 1));
  }
  tokens.push_back({"the end", line});
  return tokens;
}

bool is_number(std::string_view text) {
  return text.front() >= '0' && text.front() <= '9';
}

std::string quoted(std::string_view text) {
  return "\"" + std::string(text) + "\"";
}

SlotKind register_kind(std::string_view type) {
  static const std::map<std::string_view, SlotKind> kKinds = {{".pred", SlotKind::predicate},
                                                              {".b16", SlotKind::b16},
                                                              {".b32", SlotKind::b32},
                                                              {".b64", SlotKind::b64},
                                                              {".f32", SlotKind::f32}};
  const auto found = kKinds.find(type);
  return found == kKinds.end() ? SlotKind::constant : found->second;
}

// After the first error, all tokens except the end are consumed, so that every loop terminates.
class Parser {
 public:
  explicit Parser(std::string_view text) : tokens_(split_tokens(text)) {}

  std::expected<std::vector<Kernel>, std::string> parse() {
    head();
    std::vector<Kernel> kernels;
    while (at_ + 1 < tokens_.size()) {
      kernels.push_back(kernel());
    }
    return error_.empty() ? std::expected<std::vector<Kernel>, std::string>(std::move(kernels))
                          : std::unexpected(error_);
  }

 private:
  std::string_view take() {
    const Token& token = tokens_[at_];
    at_ += at_ + 1 < tokens_.size() ? 1U : 0U;
    line_ = token.line;
    return token.text;
  }

  // Consumes the token if it is this one.
  bool skip(std::string_view text) {
    const bool is_it = tokens_[at_].text == text;
    if (is_it) {
      take();
    }
    return is_it;
  }

  void need(std::string_view text) {
    if (const auto token = take(); token != text) {
      fail(quoted(text) + " is wanted, not " + quoted(token));
    }
  }

  void fail(const std::string& why) {
    if (error_.empty()) {
      error_ = "line " + std::to_string(line_) + ": " + why;
    }
    at_ = tokens_.size() - 1;
  }

  // ".version 6.0", ".target sm_53", ".address_size 64"; ptxas checks the values.
  void head() {
    need(".version");
    take();
    need(".target");
    take();
    need(".address_size");
    need("64");
  }

  Kernel kernel() {
    kernel_ = {};
    slots_.clear();
    labels_.clear();
    jumps_.clear();
    for (const char* name : kSpecialNames) {
      declare(name, SlotKind::special);
    }
    need(".visible");
    need(".entry");
    kernel_.name = take();
    parameters();
    need("{");
    while (error_.empty() && !skip("}")) {
      statement();
    }
    land();
    return std::move(kernel_);
  }

  void parameters() {
    need("(");
    do {
      need(".param");
      need(".u64");
      declare(std::string(take()), SlotKind::parameter);
      ++kernel_.parameters;
    } while (skip(","));
    need(")");
  }

  void statement() {
    if (skip("@")) {
      const SlotNumber guard = known('P', take());
      need("bra");
      branch(Op::branch_if);
      kernel_.code.back().sources = 1;
      kernel_.code.back().from[0] = guard;
      return;
    }
    const auto token = take();
    if (token == ".reg") {
      registers();
    } else if (skip(":")) {
      labels_[token] = static_cast<std::uint32_t>(kernel_.code.size());
    } else if (token == "bra") {
      branch(Op::branch);
    } else {
      instruction(token);
    }
  }

  // %name, or %name<4>: %name0 to %name3.
  void registers() {
    const auto type = take();
    const SlotKind kind = register_kind(type);
    if (kind == SlotKind::constant) {
      fail("registers of type " + quoted(type) + " are not known to the fake");
    }
    do {
      const std::string name(take());
      if (!skip("<")) {
        declare(name, kind);
        continue;
      }
      const std::uint64_t count = number();
      for (std::uint64_t i = 0; i < count; ++i) {
        declare(name + std::to_string(i), kind);
      }
      need(">");
    } while (skip(","));
    need(";");
  }

  void declare(const std::string& name, SlotKind kind) {
    if (!slots_.emplace(name, static_cast<SlotNumber>(kernel_.slots.size())).second) {
      fail(quoted(name) + " is declared twice");
    }
    kernel_.slots.push_back({name, kind, 0});
  }

  void branch(Op op) {
    jumps_.push_back({kernel_.code.size(), {take(), line_}});
    add(op);
    need(";");
  }

  void instruction(std::string_view name) {
    const Form* form = find_form(name);
    if (form == nullptr) {
      fail(quoted(name) + " is not among the instructions that the fake runs");
    } else if (form->count > 0) {
      memory(*form);
    } else {
      arithmetic(*form);
    }
  }

  void arithmetic(const Form& form) {
    Instruction& made = add(form.op);
    for (std::size_t i = 0; i < form.operands.size(); ++i) {
      if (i > 0) {
        need(",");
      }
      (i == 0 ? made.to[0] : made.from[i - 1]) = operand(form.operands[i]);
    }
    if (!form.operands.empty()) {
      made.mask = mask_of(form.operands[0]);
      made.targets = 1;
      made.sources = static_cast<std::uint8_t>(form.operands.size() - 1);
    }
    need(";");
  }

  void memory(const Form& form) {
    Instruction& made = add(form.op);
    const bool loads = form.op == Op::load;
    made.bytes = form.bytes;
    made.targets = loads ? form.count : 0;
    made.sources = static_cast<std::uint8_t>(loads ? 1 : form.count + 1);
    if (loads) {
      moved(form, made.to);
      need(",");
    }
    need("[");
    made.from[0] = operand('L');
    need("]");
    if (!loads) {
      need(",");
      moved(form, std::span(made.from).subspan(1));
    }
    need(";");
  }

  void moved(const Form& form, std::span<SlotNumber> slots) {
    for (std::size_t i = 0; i < form.count; ++i) {
      if (form.count > 1) {
        need(i == 0 ? "{" : ",");
      }
      slots[i] = operand(form.operands[0]);
    }
    if (form.count > 1) {
      need("}");
    }
  }

  SlotNumber operand(char letter) {
    if (takes_constant(letter) && is_number(tokens_[at_].text)) {
      return constant(letter);
    }
    const bool parameter = static_cast<SlotKind>(letter) == SlotKind::parameter;
    if (parameter) {
      need("[");
    }
    const SlotNumber slot = known(letter, take());
    if (parameter) {
      need("]");
    }
    return slot;
  }

  SlotNumber constant(char letter) {
    const std::uint64_t value = number();
    if (value > mask_of(letter)) {
      fail("the number does not fit into its type");
    }
    kernel_.slots.push_back({"", SlotKind::constant, value});
    return static_cast<SlotNumber>(kernel_.slots.size() - 1);
  }

  std::uint64_t number() {
    const auto text = take();
    const bool hex = text.starts_with("0x");
    const auto digits = hex ? text.substr(2) : text;
    const char* const end = digits.data() + digits.size();
    std::uint64_t value = 0;
    if (std::from_chars(digits.data(), end, value, hex ? 16 : 10).ptr != end) {
      fail(quoted(text) + " is no number that the fake reads");
    }
    return value;
  }

  SlotNumber known(char letter, std::string_view name) {
    const auto found = slots_.find(name);
    if (found == slots_.end()) {
      fail(quoted(name) + " is not declared");
      return 0;
    }
    if (!fits(letter, kernel_.slots[found->second].kind)) {
      fail(quoted(name) + " has another type than the instruction wants");
    }
    return found->second;
  }

  void land() {
    const auto& code = kernel_.code;
    if (code.empty() || (code.back().op != Op::end && code.back().op != Op::branch)) {
      fail("the last instruction of a kernel is not ret or bra");
    }
    for (const Jump& jump : jumps_) {
      const auto found = labels_.find(jump.label.text);
      if (found == labels_.end() || found->second >= code.size()) {
        fail("line " + std::to_string(jump.label.line) + " goes to " + quoted(jump.label.text) +
             ", where no instruction is");
        return;
      }
      kernel_.code[jump.from].next = found->second;
    }
  }

  Instruction& add(Op op) {
    Instruction& made = kernel_.code.emplace_back();
    made.op = op;
    made.line = line_;
    return made;
  }

  struct Jump {
    std::size_t from;
    Token label;
  };

  std::vector<Token> tokens_;
  std::size_t at_ = 0;
  unsigned line_ = 1;
  std::string error_;
  Kernel kernel_;
  std::map<std::string, SlotNumber, std::less<>> slots_;
  std::map<std::string_view, std::uint32_t> labels_;
  std::vector<Jump> jumps_;
};

}  // namespace

std::expected<std::vector<Kernel>, std::string> parse_ptx(std::string_view text) {
  return Parser(text).parse();
}

}  // namespace muster::fake
