// SPDX-License-Identifier: Apache-2.0
// Mlp: a small fully connected network, 64 → 128 → 64 → 10, with its backward pass. The same input
// gives the same bits on every rank: it is single-threaded, and no sum can be reordered by the
// compiler. (On different CPU types the C library's exp and log may differ in the last bit.) Value
// type.
#pragma once

#include "data.hpp"

#include <array>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace digits {

struct Parameter {
  std::string name;
  std::vector<float> values;
};

class Mlp {
 public:
  explicit Mlp(std::uint32_t seed);

  // Weights (input by input) and biases of each layer, in the order of the forward pass.
  [[nodiscard]] std::vector<Parameter>& parameters() { return parameters_; }

  [[nodiscard]] const std::vector<Parameter>& parameters() const { return parameters_; }

  // Called with each gradient as soon as it is complete, from the last parameter to the first; the
  // values are valid only during the call.
  using Ready = std::function<void(std::size_t parameter, std::span<const float> gradient)>;

  // Mean loss (cross-entropy) over these images; passes its gradients to `ready`.
  double learn(const Pictures& pictures, std::span<const std::size_t> batch, const Ready& ready);

  [[nodiscard]] std::uint8_t read(std::span<const float> pixels);

 private:
  static constexpr std::array<std::size_t, 4> kWidths{kPixels, 128, 64, kDigits};
  static constexpr std::size_t kLayers = kWidths.size() - 1;

  void forward(std::size_t rows);
  void forward_row(std::size_t layer, const float* from, float* to) const;
  // Computes the loss, and replaces the outputs with the gradient of the loss with respect to them.
  double loss(const Pictures& pictures, std::span<const std::size_t> batch);
  void layer_gradients(std::size_t layer, std::size_t rows, const Ready& ready);
  void propagate(std::size_t layer, std::size_t rows);

  std::vector<Parameter> parameters_;
  std::array<std::vector<float>, kLayers + 1> values_;  // the values of each row after each layer
  std::vector<float> delta_;                            // gradient with respect to a layer's output
  std::vector<float> gradient_;
};

}  // namespace digits
