// SPDX-License-Identifier: Apache-2.0
#include "mlp.hpp"

#include <algorithm>
#include <cmath>
#include <random>

namespace digits {
namespace {

// y += a·x, element by element, so that vector instructions do not change the result.
void add_scaled(float* y, const float* x, float a, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    y[i] += a * x[i];
  }
}

float dot(const float* x, const float* y, std::size_t count) {
  float sum = 0;
  for (std::size_t i = 0; i < count; ++i) {
    sum += x[i] * y[i];
  }
  return sum;
}

// Turns outputs into probabilities, minus 1 at the digit; returns the loss, -log of its
// probability.
double softmax_loss(std::span<float> outputs, std::size_t digit) {
  const float most = *std::ranges::max_element(outputs);
  float sum = 0;
  for (float& output : outputs) {
    output = std::exp(output - most);
    sum += output;
  }
  for (float& output : outputs) {
    output /= sum;
  }
  const double loss = -std::log(std::max(static_cast<double>(outputs[digit]), 1e-9));
  outputs[digit] -= 1;
  return loss;
}

}  // namespace

Mlp::Mlp(std::uint32_t seed) {
  std::mt19937 random(seed);
  for (std::size_t layer = 0; layer < kLayers; ++layer) {
    const std::string name = "layer" + std::to_string(layer);
    const std::size_t inputs = kWidths[layer];
    const double width = std::sqrt(6.0 / static_cast<double>(inputs));
    Parameter weights{name + ".weights", std::vector<float>(inputs * kWidths[layer + 1])};
    for (float& weight : weights.values) {
      weight = static_cast<float>((std::ldexp(random(), -31) - 1) * width);
    }
    parameters_.push_back(std::move(weights));
    parameters_.push_back({name + ".biases", std::vector<float>(kWidths[layer + 1])});
  }
}

void Mlp::forward(std::size_t rows) {
  for (std::size_t layer = 0; layer < kLayers; ++layer) {
    const std::size_t in = kWidths[layer];
    const std::size_t out = kWidths[layer + 1];
    values_[layer + 1].resize(rows * out);
    for (std::size_t row = 0; row < rows; ++row) {
      forward_row(layer, &values_[layer][row * in], &values_[layer + 1][row * out]);
    }
  }
}

void Mlp::forward_row(std::size_t layer, const float* from, float* to) const {
  const std::size_t out = kWidths[layer + 1];
  const float* weights = parameters_[2 * layer].values.data();
  std::ranges::copy(parameters_[2 * layer + 1].values, to);
  for (std::size_t i = 0; i < kWidths[layer]; ++i) {
    add_scaled(to, weights + i * out, from[i], out);
  }
  if (layer + 1 < kLayers) {
    std::transform(to, to + out, to, [](float x) { return std::max(x, 0.0F); });
  }
}

double Mlp::loss(const Pictures& pictures, std::span<const std::size_t> batch) {
  const auto rows = static_cast<double>(batch.size());
  double sum = 0;
  for (std::size_t row = 0; row < batch.size(); ++row) {
    sum += softmax_loss(std::span(values_[kLayers]).subspan(row * kDigits, kDigits),
                        pictures.digits[batch[row]]);
  }
  delta_ = values_[kLayers];
  for (float& delta : delta_) {
    delta /= static_cast<float>(rows);
  }
  return sum / rows;
}

void Mlp::layer_gradients(std::size_t layer, std::size_t rows, const Ready& ready) {
  const std::size_t in = kWidths[layer];
  const std::size_t out = kWidths[layer + 1];
  gradient_.assign(out, 0);
  for (std::size_t row = 0; row < rows; ++row) {
    add_scaled(gradient_.data(), &delta_[row * out], 1, out);
  }
  ready(2 * layer + 1, gradient_);
  gradient_.assign(in * out, 0);
  for (std::size_t row = 0; row < rows; ++row) {
    for (std::size_t i = 0; i < in; ++i) {
      add_scaled(&gradient_[i * out], &delta_[row * out], values_[layer][row * in + i], out);
    }
  }
  ready(2 * layer, gradient_);
}

// Computes the gradient of a layer's input from that of its output. The input comes from a ReLU.
void Mlp::propagate(std::size_t layer, std::size_t rows) {
  const std::size_t in = kWidths[layer];
  const std::size_t out = kWidths[layer + 1];
  const std::vector<float>& weights = parameters_[2 * layer].values;
  std::vector<float> before(rows * in);
  for (std::size_t at = 0; at < before.size(); ++at) {
    if (values_[layer][at] > 0) {
      before[at] = dot(&weights[at % in * out], &delta_[at / in * out], out);
    }
  }
  delta_ = std::move(before);
}

double Mlp::learn(const Pictures& pictures,
                  std::span<const std::size_t> batch,
                  const Ready& ready) {
  values_[0].clear();
  for (const std::size_t picture : batch) {
    const auto pixels = pictures.pixels_of(picture);
    values_[0].insert(values_[0].end(), pixels.begin(), pixels.end());
  }
  forward(batch.size());
  const double mean = loss(pictures, batch);
  for (std::size_t layer = kLayers; layer-- > 0;) {
    layer_gradients(layer, batch.size(), ready);
    if (layer > 0) {
      propagate(layer, batch.size());
    }
  }
  return mean;
}

std::uint8_t Mlp::read(std::span<const float> pixels) {
  values_[0].assign(pixels.begin(), pixels.end());
  forward(1);
  const auto best = std::ranges::max_element(values_[kLayers]);
  return static_cast<std::uint8_t>(best - values_[kLayers].begin());
}

}  // namespace digits
