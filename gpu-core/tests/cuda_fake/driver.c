// A stand-in for libcuda: memory is the host's, streams and kernels do nothing, everything succeeds at once.
// What it is for: the paths that a real driver takes only when it is missing, old, or out of memory.
//
//   -DOLD               lacks cuEventElapsedTime_v2, as drivers before CUDA 12.8 do
//   FAKE_CUDA_INIT=N    cuInit returns N
//   FAKE_CUDA_NO_POOLS  the device has no memory pools
//
// Freed pool memory counts against the total until the pool is trimmed, as memory in pieces of a wrong size would.
// Releasing the context ends the process with status 3 if anything is still alive in it.
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OK = 0, INVALID_VALUE = 1, OUT_OF_MEMORY = 2, INVALID_CONTEXT = 201 };
enum { TOTAL = 1000 * 1024 };

static __thread int current;        // this thread has the context
static size_t used, cached;         // bytes of the pool
static int live, pending_frees;     // objects alive; frees that no synchronisation has executed yet
static uint64_t release_threshold;

#define NEEDS_CONTEXT if (!current) return INVALID_CONTEXT

int cuInit(unsigned flags) {
    const char *answer = getenv("FAKE_CUDA_INIT");
    return answer ? atoi(answer) : OK;
}
int cuDriverGetVersion(int *version) { *version = 12040; return OK; }
int cuGetErrorName(int error, const char **name) {
    *name = error == OUT_OF_MEMORY ? "CUDA_ERROR_OUT_OF_MEMORY" : "CUDA_ERROR_OF_A_TEST";
    return OK;
}
int cuGetErrorString(int error, const char **text) { *text = "text of an error"; return OK; }

int cuDeviceGetCount(int *count) { *count = 1; return OK; }
int cuDeviceGet(int *device, int ordinal) { *device = ordinal; return OK; }
int cuDeviceGetName(char *name, int bytes, int device) { snprintf(name, bytes, "XYZ 9000"); return OK; }
int cuDeviceTotalMem_v2(size_t *bytes, int device) { *bytes = TOTAL; return OK; }
int cuDeviceGetAttribute(int *value, int attribute, int device) {
    switch (attribute) {
    case 75: *value = 9; break;       // compute capability, major
    case 76: *value = 0; break;       // compute capability, minor
    case 16: *value = 7; break;       // multiprocessors
    case 39: *value = 2048; break;    // threads a multiprocessor
    case 8: *value = 49152; break;    // shared memory a block
    case 115: *value = !getenv("FAKE_CUDA_NO_POOLS"); break;
    default: return INVALID_VALUE;
    }
    return OK;
}
int cuDevicePrimaryCtxRetain(void **context, int device) { *context = &live; return OK; }
int cuDevicePrimaryCtxRelease_v2(int device) {
    if (live) {
        fprintf(stderr, "%d objects are alive when the context is released\n", live);
        exit(3);
    }
    return OK;
}
int cuCtxSetCurrent(void *context) { current = context == &live; return current ? OK : INVALID_CONTEXT; }

int cuDeviceGetDefaultMemPool(void **pool, int device) { *pool = &used; return OK; }
int cuMemPoolSetAttribute(void *pool, int attribute, void *value) {
    if (pool != &used || attribute != 4) return INVALID_VALUE;
    release_threshold = *(uint64_t *)value;
    return OK;
}
int cuMemPoolGetAttribute(void *pool, int attribute, void *value) {
    if (pool != &used || (attribute != 5 && attribute != 7)) return INVALID_VALUE;
    *(uint64_t *)value = attribute == 5 ? used + cached : used;
    return OK;
}
int cuMemPoolTrimTo(void *pool, size_t keep) {
    if (pool != &used || keep != 0 || pending_frees) return INVALID_VALUE;
    cached = 0;
    return OK;
}
static int take(uint64_t *ptr, size_t bytes) {
    if (used + cached + bytes > TOTAL) return OUT_OF_MEMORY;
    size_t *block = malloc(bytes + 16);
    *block = bytes;
    used += bytes;
    live++;
    *ptr = (uint64_t)block + 16;
    return OK;
}
static size_t give(uint64_t ptr) {
    size_t *block = (size_t *)(ptr - 16), bytes = *block;
    used -= bytes;
    live--;
    free(block);
    return bytes;
}
int cuMemAllocFromPoolAsync(uint64_t *ptr, size_t bytes, void *pool, void *stream) {
    NEEDS_CONTEXT;
    // Kept by the pool across synchronisations only with the threshold raised.
    return pool != &used || !stream || release_threshold != UINT64_MAX ? INVALID_VALUE : take(ptr, bytes);
}
int cuMemFreeAsync(uint64_t ptr, void *stream) {
    NEEDS_CONTEXT;
    if (!stream) return INVALID_VALUE;
    cached += give(ptr);
    pending_frees++;
    return OK;
}
int cuMemAlloc_v2(uint64_t *ptr, size_t bytes) { NEEDS_CONTEXT; return take(ptr, bytes); }
int cuMemFree_v2(uint64_t ptr) { NEEDS_CONTEXT; give(ptr); return OK; }
int cuMemGetInfo_v2(size_t *free, size_t *total) {
    NEEDS_CONTEXT;
    *free = TOTAL - used - cached;
    *total = TOTAL;
    return OK;
}
int cuMemHostAlloc(void **ptr, size_t bytes, unsigned flags) {
    NEEDS_CONTEXT;
    if (bytes > TOTAL) return OUT_OF_MEMORY;
    *ptr = aligned_alloc(64, (bytes + 63) / 64 * 64);
    memset(*ptr, 0xa5, bytes);
    live++;
    return OK;
}
int cuMemFreeHost(void *ptr) { NEEDS_CONTEXT; live--; free(ptr); return OK; }

static int create(void **handle) { NEEDS_CONTEXT; live++; *handle = malloc(1); return OK; }
static int destroy(void *handle) { NEEDS_CONTEXT; live--; free(handle); return OK; }
int cuStreamCreate(void **stream, unsigned flags) { return flags == 1 ? create(stream) : INVALID_VALUE; }
int cuStreamDestroy_v2(void *stream) { return destroy(stream); }
int cuStreamSynchronize(void *stream) { NEEDS_CONTEXT; pending_frees = 0; return OK; }
int cuStreamWaitEvent(void *stream, void *event, unsigned flags) { NEEDS_CONTEXT; return OK; }
int cuEventCreate(void **event, unsigned flags) { return flags == 0 ? create(event) : INVALID_VALUE; }
int cuEventDestroy_v2(void *event) { return destroy(event); }
int cuEventRecord(void *event, void *stream) { NEEDS_CONTEXT; return OK; }
int cuEventSynchronize(void *event) { NEEDS_CONTEXT; return OK; }
#ifndef OLD
int cuEventElapsedTime_v2(float *ms, void *start, void *end) { NEEDS_CONTEXT; *ms = 1.5f; return OK; }
#endif
int cuMemcpyHtoDAsync_v2(uint64_t dst, const void *src, size_t bytes, void *stream) {
    NEEDS_CONTEXT;
    memcpy((void *)dst, src, bytes);
    return OK;
}
int cuMemcpyDtoHAsync_v2(void *dst, uint64_t src, size_t bytes, void *stream) {
    NEEDS_CONTEXT;
    memcpy(dst, (void *)src, bytes);
    return OK;
}
int cuMemsetD8Async(uint64_t dst, unsigned char byte, size_t bytes, void *stream) {
    NEEDS_CONTEXT;
    memset((void *)dst, byte, bytes);
    return OK;
}
int cuModuleLoadData(void **module, const void *image) { return create(module); }
int cuModuleUnload(void *module) { return destroy(module); }
int cuModuleGetFunction(void **function, void *module, const char *name) { *function = &live; return OK; }
int cuFuncGetAttribute(int *value, int attribute, void *function) {
    *value = 256;
    return attribute == 0 ? OK : INVALID_VALUE;
}
int cuLaunchKernel(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                   unsigned shared, void *stream, void **params, void **extra) {
    NEEDS_CONTEXT;
    if (!function || gz != 1 || by != 1 || bz != 1 || shared || extra) return INVALID_VALUE;
    // The one kernel: out[0] = a + b, with a of 32 bits and b of 64.
    **(uint64_t **)params[0] = *(uint32_t *)params[1] + *(uint64_t *)params[2];
    return OK;
}

// There, and refused: CUDA_ERROR_NOT_SUPPORTED.
#define REFUSED(name) int name(void) { return 801; }
REFUSED(cuEventRecordWithFlags)
REFUSED(cuGraphDestroy)
REFUSED(cuGraphExecDestroy)
REFUSED(cuGraphInstantiateWithFlags)
REFUSED(cuGraphLaunch)
REFUSED(cuStreamBeginCapture_v2)
REFUSED(cuStreamEndCapture)
