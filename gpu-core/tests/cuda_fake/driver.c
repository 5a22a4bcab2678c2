// A stand-in for libcuda: memory is the host's, streams and kernels do nothing, everything succeeds at once.
// What it is for: the paths that a real driver takes only when it is missing, old, or out of memory.
//
//   -DOLD               lacks cuEventElapsedTime_v2, as drivers before CUDA 12.8 do
//   FAKE_CUDA_INIT=N    cuInit returns N
//   FAKE_CUDA_NO_POOLS  the device has no memory pools
//   FAKE_CUDA_DEVICES=N there are N devices, each with a context that its streams and events are tied to
//   FAKE_CUDA_LOAD=N    no module is loaded, for reason N
//   FAKE_CUDA_GRAPHS    copies, fills and kernels outside graphs are refused
//
// Capture of streams follows the rules of the driver API: see "graphs" below.
//
// Freed pool memory counts against the total until the pool is trimmed, as memory in pieces of a wrong size would.
// Releasing the context ends the process with status 3 if anything is still alive in it.
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OK = 0, INVALID_VALUE = 1, OUT_OF_MEMORY = 2, INVALID_CONTEXT = 201, INVALID_HANDLE = 400,
       ALREADY_REGISTERED = 712, NOT_REGISTERED = 713 };
enum { TOTAL = 1000 * 1024 };

static __thread int current;        // the context of this thread: 1 more than its device, or 0
static char contexts[8];            // their addresses are the contexts
static size_t used, cached;         // bytes of the pool
static int live, pending_frees;     // objects alive; frees that no synchronisation has executed yet
static int retained;                // contexts in use
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

static int device_count(void) {
    const char *count = getenv("FAKE_CUDA_DEVICES");
    return count ? atoi(count) : 1;
}
int cuDeviceGetCount(int *count) { *count = device_count(); return OK; }
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
int cuDevicePrimaryCtxRetain(void **context, int device) {
    if (device >= device_count()) return INVALID_VALUE;
    *context = contexts + device;
    retained++;
    return OK;
}
int cuDevicePrimaryCtxRelease_v2(int device) {
    if (--retained == 0 && live) {
        fprintf(stderr, "%d objects are alive when the context is released\n", live);
        exit(3);
    }
    return OK;
}
int cuCtxSetCurrent(void *context) {
    char *found = context;
    current = found >= contexts && found < contexts + device_count() ? 1 + (int)(found - contexts) : 0;
    return current ? OK : INVALID_CONTEXT;
}

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

// Ranges of the program's own memory that are page-locked where they lie.
static struct { char *start, *end; } registered[16];
int cuMemHostRegister_v2(void *ptr, size_t bytes, unsigned flags) {
    NEEDS_CONTEXT;
    char *start = ptr, *end = start + bytes;
    int place = -1;
    for (int i = 0; i < 16; i++) {
        if (!registered[i].start) place = i;
        else if (registered[i].start < end && start < registered[i].end) return ALREADY_REGISTERED;
    }
    if (place < 0) return OUT_OF_MEMORY;
    registered[place].start = start;
    registered[place].end = end;
    live++;
    return OK;
}
int cuMemHostUnregister(void *ptr) {
    NEEDS_CONTEXT;
    for (int i = 0; i < 16; i++)
        if (registered[i].start == ptr) { registered[i].start = 0; live--; return OK; }
    return NOT_REGISTERED;
}

// Streams and events begin with the context that they were made in.
static int create(void **handle) {
    NEEDS_CONTEXT;
    live++;
    *handle = calloc(1, 256);
    *(int *)*handle = current;
    return OK;
}
static int destroy(void *handle) { NEEDS_CONTEXT; live--; free(handle); return OK; }
#define NEEDS_ITS_CONTEXT(object) if (!current || (object)->context != current) return INVALID_CONTEXT

// --- graphs
//
// A capture begins on one stream; another joins by waiting for an event recorded in the capture. What is queued on its
// streams is kept. Before it ends, its first stream must wait, directly or not, for the last operation of each other
// one. An event recorded in a capture is a place in it: it can be waited for there and nowhere else, and it is no time.
// Nothing on the host may wait for a capturing stream. A broken rule spoils the capture: everything in it then fails,
// and so does its end.

enum {
    CAPTURE_UNSUPPORTED = 900, CAPTURE_INVALIDATED = 901, CAPTURE_UNMATCHED = 903, CAPTURE_UNJOINED = 904,
    CAPTURE_ISOLATION = 905, CAPTURED_EVENT = 907, CAPTURE_WRONG_THREAD = 908
};
enum { STREAMS_MAX = 16, NODES_MAX = 1000 };

typedef struct { int kind; void *a, *b; size_t bytes; unsigned char byte; } node;
typedef struct {
    node nodes[NODES_MAX];
    int node_count;
    int stream_count, last[STREAMS_MAX];   // places taken on each of its streams
    int is_spoilt, has_ended;
    int *thread;                           // address of a variable of the thread that began it
} graph;
// A stream that is being captured, or an event that was recorded on one: how far it has seen each stream of the capture.
typedef struct { int context; graph *in; int number, seen[STREAMS_MAX]; } object;

static int spoil(graph *in, int error) { in->is_spoilt = 1; return error; }
static void take_place(object *stream) { stream->seen[stream->number] = ++stream->in->last[stream->number]; }

// Keeps an operation if its stream is being captured, else does it.
static int run(node *node);
static int queue(object *stream, node node) {
    NEEDS_ITS_CONTEXT(stream);
    if (!stream->in) return getenv("FAKE_CUDA_GRAPHS") ? INVALID_VALUE : run(&node);
    if (stream->in->is_spoilt) return CAPTURE_INVALIDATED;
    if (stream->in->node_count == NODES_MAX) return OUT_OF_MEMORY;
    stream->in->nodes[stream->in->node_count++] = node;
    take_place(stream);
    return OK;
}

int cuStreamBeginCapture_v2(object *stream, int mode) {
    NEEDS_CONTEXT;
    if (!stream || stream->in || mode != 1) return INVALID_VALUE;
    stream->in = calloc(1, sizeof(graph));
    stream->in->stream_count = 1;
    stream->in->thread = &current;
    stream->number = 0;
    memset(stream->seen, 0, sizeof stream->seen);
    return OK;
}

// Streams that joined a capture, so that its end releases them.
static struct { graph *in; object *stream; } joined[64];

int cuStreamEndCapture(object *stream, graph **out) {
    NEEDS_CONTEXT;
    graph *in = stream->in;
    *out = NULL;
    if (!in) return INVALID_VALUE;
    if (stream->number != 0) return CAPTURE_UNMATCHED;
    if (in->thread != &current) return CAPTURE_WRONG_THREAD;
    int error = in->is_spoilt ? CAPTURE_INVALIDATED : OK;
    for (int i = 1; i < in->stream_count; i++)
        if (!error && stream->seen[i] < in->last[i]) error = CAPTURE_UNJOINED;
    for (int i = 0; i < 64; i++)
        if (joined[i].in == in) { joined[i].stream->in = NULL; joined[i].in = NULL; }
    stream->in = NULL;
    in->has_ended = 1;
    if (error) return error;
    live++;
    *out = in;
    return OK;
}
int cuGraphDestroy(graph *graph) { NEEDS_CONTEXT; live--; return OK; }   // kept, for events that point to it
int cuGraphInstantiateWithFlags(graph **out, graph *captured, unsigned long long flags) {
    NEEDS_CONTEXT;
    if (flags) return INVALID_VALUE;
    *out = malloc(sizeof(graph));
    memcpy(*out, captured, sizeof(graph));
    live++;
    return OK;
}
int cuGraphExecDestroy(graph *graph) { return destroy(graph); }
int cuGraphLaunch(graph *graph, object *stream) {
    NEEDS_CONTEXT;
    if (!stream || stream->in) return INVALID_VALUE;
    for (int i = 0; i < graph->node_count; i++) {
        int error = run(&graph->nodes[i]);
        if (error) return error;
    }
    return OK;
}

int cuStreamCreate(void **stream, unsigned flags) { return flags == 1 ? create(stream) : INVALID_VALUE; }
int cuStreamDestroy_v2(object *stream) { return stream->in ? INVALID_VALUE : destroy(stream); }
int cuStreamSynchronize(object *stream) {
    NEEDS_ITS_CONTEXT(stream);
    if (stream->in) return spoil(stream->in, CAPTURE_UNSUPPORTED);
    pending_frees = 0;
    return OK;
}
int cuStreamWaitEvent(object *stream, object *event, unsigned flags) {
    NEEDS_CONTEXT;
    if (stream->in && stream->in != event->in) return spoil(stream->in, CAPTURE_ISOLATION);
    if (!event->in) return OK;
    if (event->in->has_ended) return CAPTURED_EVENT;
    if (!stream->in) {
        int i = 0;
        if (event->in->stream_count == STREAMS_MAX) return OUT_OF_MEMORY;
        while (joined[i].in) i++;
        joined[i].in = stream->in = event->in;
        joined[i].stream = stream;
        stream->number = event->in->stream_count++;
        memset(stream->seen, 0, sizeof stream->seen);
    }
    for (int i = 0; i < STREAMS_MAX; i++)
        if (stream->seen[i] < event->seen[i]) stream->seen[i] = event->seen[i];
    take_place(stream);
    return OK;
}
int cuEventCreate(void **event, unsigned flags) {
    static int made;
    const char *fails = getenv("FAKE_CUDA_EVENT_FAILS");
    if (fails && ++made == atoi(fails)) return OUT_OF_MEMORY;
    return flags == 0 ? create(event) : INVALID_VALUE;
}
int cuEventDestroy_v2(void *event) { return destroy(event); }
int cuEventRecord(object *event, object *stream) {
    NEEDS_ITS_CONTEXT(event);
    NEEDS_ITS_CONTEXT(stream);
    if (stream->in && stream->in->is_spoilt) return CAPTURE_INVALIDATED;
    event->in = stream->in;
    memcpy(event->seen, stream->seen, sizeof event->seen);
    return OK;
}
int cuEventRecordWithFlags(object *event, object *stream, unsigned flags) {
    if (flags != 1 || !stream->in) return INVALID_VALUE;
    event->in = NULL;
    return queue(stream, (node){ .kind = 3 });
}
int cuEventSynchronize(object *event) { NEEDS_ITS_CONTEXT(event); return event->in ? CAPTURED_EVENT : OK; }
#ifndef OLD
int cuEventElapsedTime_v2(float *ms, object *start, object *end) {
    NEEDS_CONTEXT;
    if (start->in || end->in) return INVALID_HANDLE;
    *ms = 1.5f;
    return OK;
}
#endif
static int run(node *node) {
    switch (node->kind) {
    case 1: memcpy(node->a, node->b, node->bytes); return OK;
    case 2: memset(node->a, node->byte, node->bytes); return OK;
    case 4: *(uint64_t *)node->a = node->bytes; return OK;
    default: return OK;
    }
}
int cuMemcpyHtoDAsync_v2(uint64_t dst, const void *src, size_t bytes, object *stream) {
    return queue(stream, (node){ .kind = 1, .a = (void *)dst, .b = (void *)src, .bytes = bytes });
}
int cuMemcpyDtoHAsync_v2(void *dst, uint64_t src, size_t bytes, object *stream) {
    return queue(stream, (node){ .kind = 1, .a = dst, .b = (void *)src, .bytes = bytes });
}
int cuMemsetD8Async(uint64_t dst, unsigned char byte, size_t bytes, object *stream) {
    return queue(stream, (node){ .kind = 2, .a = (void *)dst, .byte = byte, .bytes = bytes });
}
int cuModuleLoadData(void **module, const void *image) {
    const char *answer = getenv("FAKE_CUDA_LOAD");
    return answer ? atoi(answer) : create(module);
}
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
    if (!gx || !gy || gy > 65535 || !bx || bx > 256) return INVALID_VALUE;
    // The one kernel: out[0] = a + b, with a of 32 bits and b of 64.
    size_t sum = *(uint32_t *)params[1] + *(uint64_t *)params[2];
    return queue(stream, (node){ .kind = 4, .a = *(void **)params[0], .bytes = sum });
}
