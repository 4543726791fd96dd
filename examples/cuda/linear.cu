// SPDX-License-Identifier: Apache-2.0
// linear: fits a linear model on GPUs; each rank has its own samples:
//   muster --nproc-per-node=gpu build/release/examples/muster-linear
// The kernels write gradients where GradientSync sums them over all ranks; nothing is copied to
// the host in a step. Exits with 0 if the model was found and is the same on all ranks.
#include <muster/gradient_sync.hpp>
#include <muster/worker.hpp>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

namespace {

constexpr int kSamples = 4096;  // per rank
constexpr int kFeatures = 256;
constexpr int kSteps = 60;
constexpr int kBlock = 128;
constexpr float kRate = 0.8F;
constexpr float kNear = 1e-3F;

int failed(const std::string& what) {
  std::fprintf(stderr, "linear: %s\n", what.c_str());
  return 1;
}

// A value from -1 to 1 that depends only on `number`. Mixes the bits like MurmurHash3.
__host__ __device__ float random_of(unsigned number) {
  number ^= number >> 16;
  number *= 0x85ebca6bU;
  number ^= number >> 13;
  number *= 0xc2b2ae35U;
  number ^= number >> 16;
  return static_cast<float>(number) * (2.0F / 4294967296.0F) - 1.0F;
}

__host__ __device__ float true_weight(int feature) {
  return random_of(0x80000000U + static_cast<unsigned>(feature));
}

__global__ void make_samples(float* inputs, int rank) {
  const int at = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (at < kSamples * kFeatures) {
    inputs[at] = random_of(static_cast<unsigned>(rank * kSamples * kFeatures + at));
  }
}

// The model's prediction for each sample, minus the target.
__global__ void find_errors(const float* inputs, const float* weights, float* errors) {
  const int sample = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (sample >= kSamples) {
    return;
  }
  float sum = 0;
  for (int feature = 0; feature < kFeatures; ++feature) {
    sum += inputs[sample * kFeatures + feature] * (weights[feature] - true_weight(feature));
  }
  errors[sample] = sum;
}

// The gradient of the mean square error.
__global__ void find_gradient(const float* inputs, const float* errors, float* gradient) {
  const int feature = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (feature >= kFeatures) {
    return;
  }
  float sum = 0;
  for (int sample = 0; sample < kSamples; ++sample) {
    sum += errors[sample] * inputs[sample * kFeatures + feature];
  }
  gradient[feature] = sum * (2.0F / kSamples);
}

__global__ void descend(float* weights, const float* gradient) {
  const int feature = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (feature < kFeatures) {
    weights[feature] -= kRate * gradient[feature];
  }
}

constexpr int blocks_of(int threads) {
  return (threads + kBlock - 1) / kBlock;
}

struct Model {
  float* inputs = nullptr;
  float* errors = nullptr;
  float* weights = nullptr;
  float* largest = nullptr;  // over the weights of all ranks
  cudaStream_t stream = nullptr;
};

// The GPU of this local rank; ranks share GPUs if there are too few.
int choose_gpu() {
  const char* const local_rank = std::getenv("LOCAL_RANK");
  int count = 0;
  if (cudaGetDeviceCount(&count) != cudaSuccess || count == 0) {
    return -1;
  }
  const int device = (local_rank == nullptr ? 0 : std::atoi(local_rank)) % count;
  return cudaSetDevice(device) == cudaSuccess ? device : -1;
}

bool prepare(Model& model, int rank) {
  const std::size_t all = sizeof(float) * kSamples * kFeatures;
  if (cudaStreamCreate(&model.stream) != cudaSuccess ||
      cudaMalloc(&model.inputs, all) != cudaSuccess ||
      cudaMalloc(&model.errors, sizeof(float) * kSamples) != cudaSuccess ||
      cudaMalloc(&model.weights, sizeof(float) * kFeatures) != cudaSuccess ||
      cudaMalloc(&model.largest, sizeof(float) * kFeatures) != cudaSuccess) {
    return false;
  }
  cudaMemsetAsync(model.weights, 0, sizeof(float) * kFeatures, model.stream);
  make_samples<<<blocks_of(kSamples * kFeatures), kBlock, 0, model.stream>>>(model.inputs, rank);
  return cudaGetLastError() == cudaSuccess;
}

muster::Result<void> step(const Model& model, muster::GradientSync& sync, int id) {
  auto gradient = sync.grad(id);
  if (!gradient) {
    return gradient.error();
  }
  auto* const memory = static_cast<float*>(*gradient);
  if (auto begun = sync.begin(); !begun) {
    return begun;
  }
  find_errors<<<blocks_of(kSamples), kBlock, 0, model.stream>>>(model.inputs, model.weights,
                                                                model.errors);
  find_gradient<<<blocks_of(kFeatures), kBlock, 0, model.stream>>>(model.inputs, model.errors,
                                                                   memory);
  if (auto ready = sync.mark_ready(id, model.stream); !ready) {
    return ready;
  }
  if (auto summed = sync.wait_stream(model.stream); !summed) {
    return summed.error();
  }
  descend<<<blocks_of(kFeatures), kBlock, 0, model.stream>>>(model.weights, memory);
  const cudaError_t launched = cudaGetLastError();
  return launched == cudaSuccess
             ? muster::Result<void>()
             : muster::failure(muster::Errc::cuda, cudaGetErrorString(launched));
}

// The largest distance from the true weights, and whether all ranks have the same weights.
muster::Result<float> check(const Model& model, muster::Communicator& comm, int device) {
  muster::OpOptions options;
  options.stream = model.stream;
  const muster::ConstBuffer mine(model.weights, kFeatures, device);
  const muster::Buffer all(model.largest, kFeatures, device);
  auto largest_of_all = comm.all_reduce(mine, all, muster::Op::max, options);
  if (!largest_of_all) {
    return largest_of_all.error();
  }
  // The operation runs after the stream's earlier work, and the stream's later work after it.
  if (auto ordered = largest_of_all->wait_stream(model.stream); !ordered) {
    return ordered.error();
  }
  std::vector<float> own(kFeatures);
  std::vector<float> largest(kFeatures);
  const std::size_t bytes = sizeof(float) * kFeatures;
  cudaMemcpyAsync(own.data(), model.weights, bytes, cudaMemcpyDeviceToHost, model.stream);
  cudaMemcpyAsync(largest.data(), model.largest, bytes, cudaMemcpyDeviceToHost, model.stream);
  const cudaError_t ended = cudaStreamSynchronize(model.stream);
  if (ended != cudaSuccess) {
    return muster::failure(muster::Errc::cuda, cudaGetErrorString(ended));
  }
  float farthest = 0;
  for (int i = 0; i < kFeatures; ++i) {
    farthest = std::fmax(farthest, std::fabs(own[i] - true_weight(i)));
    if (own[i] != largest[i]) {
      return muster::failure(muster::Errc::mismatch, "ranks have different weights");
    }
  }
  return farthest;
}

}  // namespace

int main() {
  const int device = choose_gpu();
  if (device < 0) {
    return failed("CUDA found no usable GPU");
  }
  auto comm = muster::Communicator::from_env();
  if (!comm) {
    return failed(comm.error().text);
  }
  muster::GradientSyncOptions options;
  options.device = device;
  auto sync = muster::GradientSync::create(*comm, options);
  auto id = sync ? sync->add("weights", muster::DType::f32, kFeatures) : sync.error();
  if (!id) {
    return failed(id.error().text);
  }
  if (auto done = sync->finalize(); !done) {
    return failed(done.error().text);
  }
  Model model;
  if (!prepare(model, comm->rank())) {
    return failed(std::string("CUDA: ") + cudaGetErrorString(cudaPeekAtLastError()));
  }
  for (int number = 0; number < kSteps; ++number) {
    if (auto done = step(model, *sync, *id); !done) {
      return failed(done.error().text);
    }
    muster::worker::progress(static_cast<std::uint64_t>(number));
  }
  const auto farthest = check(model, *comm, device);
  if (!farthest) {
    return failed(farthest.error().text);
  }
  if (comm->rank() == 0) {
    std::printf("%d rank(s): after %d steps each weight is within %.1e of its true value\n",
                comm->size(), kSteps, static_cast<double>(*farthest));
  }
  return *farthest < kNear ? 0 : 1;
}
