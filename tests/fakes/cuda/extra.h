// SPDX-License-Identifier: Apache-2.0
// What the fake driver has beyond CUDA's, for the fake NCCL and for tests that find it by dlsym.
#pragma once

#include <cuda.h>

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
  const void* data;
  size_t bytes;
  int write;
} muster_fake_span;

// A kernel: runs `body(data)` on the stream's own thread, and declares what memory it uses.
CUresult muster_fake_launch(
    CUstream stream, const char* what, CUhostFn body, void* data, const muster_fake_span* spans);
// From now on a use of the stream breaks a rule, for this reason; null: no more.
void muster_fake_hold(CUstream stream, const char* why);
// Until all streams of the device have done what they have been given by now, as by calls that free
// memory. The host learns nothing.
void muster_fake_await_device(int device);
// How many threads do so now.
int muster_fake_awaiting(void);
// The stream captures a graph, or no more: what it is given now breaks a rule.
void muster_fake_capture(CUstream stream, int on);
// The allocation that the address lies in: bytes from there to its end; 0: not device memory.
size_t muster_fake_bytes_from(const void* data);
// What cuPointerGetAttribute says of an allocation: its CUmemorytype, and whether it is managed.
void muster_fake_call_it(const void* data, unsigned type, unsigned managed);
// As if a thread captured a graph: what would spoil it breaks a rule.
void muster_fake_capturing(int on);
// Modules that are loaded now, and how often one was loaded since the process began.
int muster_fake_modules(void);
unsigned long muster_fake_module_loads(void);

#ifdef __cplusplus
}
#endif
