// SPDX-License-Identifier: Apache-2.0
// The words that blocks, goals and plots share: names of rows and of tables. Values.
#pragma once

namespace muster::bench::names {

inline constexpr auto kMuster = "muster";
inline constexpr auto kFloor = "bare vfork + exec + wait";
inline constexpr auto kHydra = "mpiexec.hydra (MPICH)";
inline constexpr auto kOpenMpi = "mpirun (Open MPI)";
inline constexpr auto kTorchrun = "torchrun 2.15";
inline constexpr auto kFtLauncher = "ft_launcher 0.4.1";
inline constexpr auto kEcho = "bare epoll echo";
inline constexpr auto kRedis = "redis-server";
inline constexpr auto kTorchStore = "PyTorch TCPStore (libuv)";
inline constexpr auto kStore = "muster-store";
inline constexpr auto kPrivate = "muster, plain memory";
inline constexpr auto kLibrary = "muster, library's memory";
inline constexpr auto kTcp = "muster, TCP on loopback";
inline constexpr auto kMpich = "MPICH";
inline constexpr auto kGloo = "PyTorch 2.15, gloo";
inline constexpr auto kMemcpy = "memcpy by both ranks";
inline constexpr auto kBareTcp = "bare TCP, as many bytes";
inline constexpr auto kNccl = "muster, NCCL";
inline constexpr auto kGradientSync = "muster, GradientSync";
inline constexpr auto kGlooOverPrivate = "gloo ÷ muster, plain memory";
inline constexpr auto kGlooOverLibrary = "gloo ÷ muster, library's memory";
inline constexpr auto kGlooOverTcp = "gloo ÷ muster, TCP";
inline constexpr auto kMpiOverPrivate = "better MPI ÷ muster, plain memory";
inline constexpr auto kOpenMpiOverPrivate = "Open MPI ÷ muster, plain memory";
inline constexpr auto kMpiOverLibrary = "better MPI ÷ muster, library's memory";
inline constexpr auto kMemcpyOverPrivate = "memcpy ÷ muster, plain memory";
inline constexpr auto kBareOverTcp = "bare TCP ÷ muster, TCP";
inline constexpr auto kTee = "8 × tee";
inline constexpr auto kCat = "8 × cat to the console only";

}  // namespace muster::bench::names
