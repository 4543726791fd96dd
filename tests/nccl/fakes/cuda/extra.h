// SPDX-License-Identifier: Apache-2.0
// Functions of the fake driver beyond CUDA's, for the fake NCCL and for tests that find them with
// dlsym.
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

// A kernel: runs `body(data)` on the stream's own thread, and declares the memory that it uses.
CUresult muster_fake_launch(
    CUstream stream, const char* what, CUhostFn body, void* data, const muster_fake_span* spans);
// From now on any use of the stream breaks a rule, for this reason; null ends this.
void muster_fake_hold(CUstream stream, const char* why);
// Waits until all streams of the device have completed the work queued so far, like calls that free
// memory. The host does not learn that the work is done.
void muster_fake_await_device(int device);
// How many threads are waiting in it now.
int muster_fake_awaiting(void);
// Whether the stream captures a graph. While it does, queued work breaks a rule.
void muster_fake_capture(CUstream stream, int on);
// The number of bytes from the address to the end of its allocation; 0: not device memory.
size_t muster_fake_bytes_from(const void* data);
// Sets what cuPointerGetAttribute returns for an allocation: its CUmemorytype, and whether it is
// managed.
void muster_fake_call_it(const void* data, unsigned type, unsigned managed);
// As if a thread captured a graph: calls that would invalidate it break a rule.
void muster_fake_capturing(int on);
// The number of modules loaded now, and of loads since the process started.
int muster_fake_modules(void);
unsigned long muster_fake_module_loads(void);

#ifdef __cplusplus
}
#endif
