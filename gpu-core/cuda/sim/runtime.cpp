// runtime.cpp: runs the blocks of a kernel for the simulated device.
//
// A plain kernel is a loop over the threads of a block. In a collective kernel each thread is a fiber with
// its own stack; barriers and warp operations give control back to the block's scheduler, which resumes the
// threads in the order that the launch asks for. A thread that breaks a rule (a fault, a barrier that not all
// live threads reach) ends the launch with a description, never the process: control jumps back to
// sim_run_blocks, across kernel frames only, which own nothing.
// SPDX-License-Identifier: MIT OR Apache-2.0

#include "sim/shim.h"

#undef __noinline__
#include <errno.h>
#include <link.h>
#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

#define EXPORTED extern "C"

// --- shared with gpu-core/src/sim/runtime.rs ---------------------------------------------------------------

enum SimFaultKind : uint32_t {
  FAULT_NONE,
  FAULT_ACCESS,       // a signal about `address`
  FAULT_PLAIN_MEETS,  // a barrier or warp operation in a kernel marked EXPORT_KERNEL
  FAULT_BARRIER,      // `waiting` threads wait at `site`, others at `other_site` (0: at a warp operation)
  FAULT_WARP,         // lanes named in the mask wait elsewhere, or the caller is not in its own mask
  FAULT_STACK,        // a thread's stack overflowed
  FAULT_ARITHMETIC,   // SIGFPE
  FAULT_TRAP,         // __trap() or an illegal instruction
  FAULT_RESOURCES,    // no memory for stacks
};

struct SimFault {
  uint64_t address;
  SimFaultKind kind;
  uint32_t access;  // 0 unknown, 1 read, 2 write
  uint32_t block_x, block_y, thread;
  uint32_t site, other_site, waiting;
};

struct SimLaunch {
  const SimKernel* kernel;
  const void* const* args;
  uint64_t seed;
  uint64_t* next_block;   // next block in row-major order, shared by all workers of the launch
  uint32_t* is_stopped;   // set by a worker that met a fault
  uint64_t block_end;     // this call runs blocks below
  uint32_t grid_x, grid_y, block;
  uint32_t order;         // of the threads of a block: 0 forward, 1 backward, 2 seeded
};

// --- fibers ------------------------------------------------------------------------------------------------

namespace {

const uint32_t THREADS_MAX = 1024;
const uint32_t LANES = 32;
const size_t STACK_BYTES = 64 * 1024;
#if defined(__SANITIZE_ADDRESS__)
const size_t STACK_SCALE = 4;  // redzones around every local
#else
const size_t STACK_SCALE = 1;
#endif
const uint8_t POISON = 0xa5;  // as in gpu-core/src/sim/memory.rs
const uint64_t POISON_WORD = 0xa5a5a5a5a5a5a5a5ull;

enum State : uint8_t { READY, RUNNING, AT_BARRIER, AT_WARP, DONE };

struct Context {
#if defined(__x86_64__) || defined(__aarch64__)
  void* stack_pointer;
#else
  ucontext_t saved;
#endif
};

struct Fiber {
  Context context;
  uint64_t value, result;
  uint32_t site, mask, source_lane;
  SimWarpOp op;
};

}  // namespace

// Stacks and bookkeeping of one host thread that runs blocks; reused from launch to launch.
struct SimWorker {
  char* stacks;
  size_t stride;      // a guard page, then a stack
  size_t guard_bytes;
  Context scheduler;
  uint16_t order[THREADS_MAX];
  State states[THREADS_MAX];
  uint32_t live_lanes[THREADS_MAX / LANES];     // of each warp: threads that have not returned
  uint32_t waiting_lanes[THREADS_MAX / LANES];  // of each warp: threads at a warp operation
  Fiber fibers[THREADS_MAX];
  char signal_stack[64 * 1024];
};

namespace {

struct Run {
  const SimLaunch* launch;
  SimWorker* worker;
  SimFault* fault;
  sigjmp_buf escape;
  char* shared;
  size_t shared_bytes;
  uint64_t random;
  uint32_t live, at_barrier;
  volatile bool is_in_kernel;
#if defined(__SANITIZE_ADDRESS__)
  const void* host_stack;
  size_t host_stack_bytes;
#endif
};

__thread Run* current __attribute__((tls_model("initial-exec")));

#if defined(__x86_64__)
// Saves the callee-saved registers on the stack, swaps stacks, restores.
extern "C" void sim_switch(void** save, void* load);
asm(R"(
.text
.globl sim_switch
.hidden sim_switch
.type sim_switch, @function
sim_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size sim_switch, .-sim_switch
)");
const size_t SAVED_WORDS = 6;
void prepare(Context* context, char* stack, size_t bytes, void (*entry)()) {
  // At entry of a function the stack pointer is 8 below a multiple of 16: a return address that is never
  // used.
  void** top = reinterpret_cast<void**>(stack + bytes);
  top[-1] = nullptr;
  top[-2] = reinterpret_cast<void*>(entry);
  void** saved = top - 2 - SAVED_WORDS;
  for (size_t i = 0; i < SAVED_WORDS; i++) saved[i] = nullptr;
  context->stack_pointer = saved;
}
void swap(Context* from, Context* to) { sim_switch(&from->stack_pointer, to->stack_pointer); }
#elif defined(__aarch64__)
extern "C" void sim_switch(void** save, void* load);
asm(R"(
.text
.globl sim_switch
.hidden sim_switch
.type sim_switch, @function
sim_switch:
  sub sp, sp, #160
  stp x19, x20, [sp, #0]
  stp x21, x22, [sp, #16]
  stp x23, x24, [sp, #32]
  stp x25, x26, [sp, #48]
  stp x27, x28, [sp, #64]
  stp x29, x30, [sp, #80]
  stp d8, d9, [sp, #96]
  stp d10, d11, [sp, #112]
  stp d12, d13, [sp, #128]
  stp d14, d15, [sp, #144]
  mov x9, sp
  str x9, [x0]
  mov sp, x1
  ldp x19, x20, [sp, #0]
  ldp x21, x22, [sp, #16]
  ldp x23, x24, [sp, #32]
  ldp x25, x26, [sp, #48]
  ldp x27, x28, [sp, #64]
  ldp x29, x30, [sp, #80]
  ldp d8, d9, [sp, #96]
  ldp d10, d11, [sp, #112]
  ldp d12, d13, [sp, #128]
  ldp d14, d15, [sp, #144]
  add sp, sp, #160
  ret
.size sim_switch, .-sim_switch
)");
void prepare(Context* context, char* stack, size_t bytes, void (*entry)()) {
  void** saved = reinterpret_cast<void**>(stack + bytes - 160);
  for (size_t i = 0; i < 20; i++) saved[i] = nullptr;
  saved[11] = reinterpret_cast<void*>(entry);  // x30
  context->stack_pointer = saved;
}
void swap(Context* from, Context* to) { sim_switch(&from->stack_pointer, to->stack_pointer); }
#else
void prepare(Context* context, char* stack, size_t bytes, void (*entry)()) {
  getcontext(&context->saved);
  context->saved.uc_stack.ss_sp = stack;
  context->saved.uc_stack.ss_size = bytes;
  context->saved.uc_link = nullptr;
  makecontext(&context->saved, entry, 0);
}
void swap(Context* from, Context* to) { swapcontext(&from->saved, &to->saved); }
#endif

char* stack_of(const SimWorker* worker, uint32_t thread) {
  return worker->stacks + thread * worker->stride + worker->guard_bytes;
}

// Stacks begin at different cache lines of their pages: equal ones would share one set of the cache.
size_t stack_bytes(uint32_t thread) { return STACK_BYTES * STACK_SCALE - thread * 5 % 64 * 64; }

void resume(Run* run, uint32_t thread) {
  Fiber* fiber = &run->worker->fibers[thread];
  sim_thread_idx.x = thread;
  run->worker->states[thread] = RUNNING;
#if defined(__SANITIZE_ADDRESS__)
  void* fake_stack = nullptr;
  __sanitizer_start_switch_fiber(&fake_stack, stack_of(run->worker, thread), stack_bytes(thread));
  swap(&run->worker->scheduler, &fiber->context);
  __sanitizer_finish_switch_fiber(fake_stack, nullptr, nullptr);
#else
  swap(&run->worker->scheduler, &fiber->context);
#endif
}

// Leaves the running fiber for the scheduler; returns when the scheduler resumes it.
void pause(Run* run, Fiber* fiber) {
#if defined(__SANITIZE_ADDRESS__)
  void* fake_stack = nullptr;
  __sanitizer_start_switch_fiber(&fake_stack, run->host_stack, run->host_stack_bytes);
  swap(&fiber->context, &run->worker->scheduler);
  __sanitizer_finish_switch_fiber(fake_stack, nullptr, nullptr);
#else
  swap(&fiber->context, &run->worker->scheduler);
#endif
}

[[noreturn]] void escape(Run* run) {
  run->is_in_kernel = false;
#if defined(__SANITIZE_ADDRESS__)
  if (run->launch->kernel->collective) {
    __sanitizer_start_switch_fiber(nullptr, run->host_stack, run->host_stack_bytes);
  }
#endif
  siglongjmp(run->escape, 1);
}

// The other end of `escape`.
void land(Run* run) {
#if defined(__SANITIZE_ADDRESS__)
  if (run->launch->kernel->collective) __sanitizer_finish_switch_fiber(nullptr, nullptr, nullptr);
  // Frames between here and where the escape began were abandoned with their redzones.
  char* frame = static_cast<char*>(__builtin_frame_address(0));
  ASAN_UNPOISON_MEMORY_REGION(frame - STACK_BYTES * STACK_SCALE, STACK_BYTES * STACK_SCALE);
#else
  (void)run;
#endif
}

void describe(Run* run, SimFaultKind kind, uint32_t site) {
  SimFault* fault = run->fault;
  fault->kind = kind;
  fault->site = site;
  fault->block_x = sim_block_idx.x;
  fault->block_y = sim_block_idx.y;
  fault->thread = sim_thread_idx.x;
}

// --- warp operations ---------------------------------------------------------------------------------------

uint64_t reduced(SimWarpOp op, uint32_t a, uint32_t b) {
  switch (op) {
    case SIM_REDUCE_ADD: return a + b;
    case SIM_REDUCE_MIN: return b < a ? b : a;
    case SIM_REDUCE_MAX: return a < b ? b : a;
    case SIM_REDUCE_AND: return a & b;
    case SIM_REDUCE_OR: return a | b;
    default: return a ^ b;
  }
}

// Completes the warp operation that `caller` waits at, if every live lane of its mask is there.
bool complete_warp_op(Run* run, uint32_t warp, const Fiber* caller) {
  Fiber* lanes = run->worker->fibers + warp * LANES;
  const uint32_t group = caller->mask & run->worker->live_lanes[warp];
  if ((run->worker->waiting_lanes[warp] & group) != group) return false;
  for (uint32_t i = 0; i < LANES; i++) {
    const bool is_elsewhere =
        lanes[i].op != caller->op || lanes[i].site != caller->site || lanes[i].mask != caller->mask;
    if ((group >> i & 1) && is_elsewhere) return false;
  }
  run->worker->waiting_lanes[warp] &= ~group;
  uint64_t common = 0;
  bool is_first = true;
  for (uint32_t i = 0; i < LANES; i++) {
    if ((group >> i & 1) == 0) continue;
    const uint64_t value = lanes[i].value;
    if (caller->op == SIM_BALLOT) common |= value << i;
    if (caller->op >= SIM_REDUCE_ADD) {
      common = is_first ? value : reduced(caller->op, (uint32_t)common, (uint32_t)value);
    }
    is_first = false;
  }
  const SimWarpOp op = caller->op;
  for (uint32_t i = 0; i < LANES; i++) {
    if ((group >> i & 1) == 0) continue;
    lanes[i].result = common;
    if (op == SIM_SHUFFLE) {
      // A lane that does not take part has no defined value.
      const uint32_t source = lanes[i].source_lane;
      lanes[i].result = source < LANES && (group >> source & 1) ? lanes[source].value : POISON_WORD;
    }
    if (op == SIM_MATCH) {
      lanes[i].result = 0;
      for (uint32_t j = 0; j < LANES; j++) {
        if ((group >> j & 1) && lanes[j].value == lanes[i].value) lanes[i].result |= 1ull << j;
      }
    }
    run->worker->states[warp * LANES + i] = READY;
  }
  return true;
}

void finish_thread(Run* run, uint32_t thread) {
  SimWorker* worker = run->worker;
  const uint32_t warp = thread / LANES;
  worker->states[thread] = DONE;
  worker->live_lanes[warp] &= ~(1u << thread % LANES);
  run->live--;
  // Lanes that waited for this one may go on without it.
  for (uint32_t i = 0; i < LANES && worker->waiting_lanes[warp] != 0; i++) {
    if (worker->waiting_lanes[warp] >> i & 1) complete_warp_op(run, warp, &worker->fibers[warp * LANES + i]);
  }
}

void fiber_entry() {
  Run* run = current;
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(nullptr, &run->host_stack, &run->host_stack_bytes);
#endif
  const uint32_t thread = sim_thread_idx.x;
  run->launch->kernel->call(run->launch->args);
  finish_thread(run, thread);
  pause(run, &run->worker->fibers[thread]);
  __builtin_trap();  // a finished fiber is never resumed
}

// --- blocks ------------------------------------------------------------------------------------------------

uint64_t next_random(uint64_t* state) {
  // splitmix64
  uint64_t z = *state += 0x9e3779b97f4a7c15ull;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ z >> 27) * 0x94d049bb133111ebull;
  return z ^ z >> 31;
}

void run_plain_block(Run* run) {
  const uint32_t count = run->launch->block;
  const uint32_t order = run->launch->order;
  void (*call)(const void* const*) = run->launch->kernel->call;
  const uint32_t start = order == 2 ? next_random(&run->random) % count : 0;
  const bool is_backward = order == 1 || (order == 2 && (next_random(&run->random) & 1));
  for (uint32_t i = 0; i < count; i++) {
    const uint32_t turned = i + start < count ? i + start : i + start - count;
    sim_thread_idx.x = is_backward ? count - 1 - turned : turned;
    call(run->launch->args);
  }
}

void order_threads(Run* run) {
  uint16_t* order = run->worker->order;
  const uint32_t count = run->launch->block;
  for (uint32_t i = count - 1; i > 0; i--) {
    const uint32_t j = next_random(&run->random) % (i + 1);
    const uint16_t swapped = order[i];
    order[i] = order[j];
    order[j] = swapped;
  }
}

// Nobody can go on: names one thread that waits, and one that waits elsewhere.
void describe_deadlock(Run* run) {
  const Fiber* fibers = run->worker->fibers;
  const State* states = run->worker->states;
  const uint32_t count = run->launch->block;
  uint32_t first = 0;
  while (states[first] == DONE || (run->at_barrier > 0 && states[first] != AT_BARRIER)) first++;
  sim_thread_idx.x = first;
  describe(run, run->at_barrier > 0 ? FAULT_BARRIER : FAULT_WARP, fibers[first].site);
  for (uint32_t i = 0; i < count; i++) {
    if (states[i] != states[first]) continue;
    if (fibers[i].site == fibers[first].site) {
      run->fault->waiting++;
    } else {
      run->fault->other_site = fibers[i].site;
    }
  }
}

// False if the threads can never all finish.
bool run_collective_block(Run* run) {
  SimWorker* worker = run->worker;
  const uint32_t count = run->launch->block;
  run->live = count;
  run->at_barrier = 0;
  for (uint32_t i = 0; i < count; i++) {
    worker->order[i] = run->launch->order == 1 ? count - 1 - i : i;
    worker->states[i] = READY;
    char* stack = stack_of(worker, i);
#if defined(__SANITIZE_ADDRESS__)
    ASAN_UNPOISON_MEMORY_REGION(stack, STACK_BYTES * STACK_SCALE);  // frames that an escape abandoned
#endif
    prepare(&worker->fibers[i].context, stack, stack_bytes(i), fiber_entry);
  }
  for (uint32_t warp = 0; warp * LANES < count; warp++) {
    const uint32_t lanes = count - warp * LANES;
    worker->live_lanes[warp] = lanes < LANES ? (1u << lanes) - 1 : 0xffffffffu;
    worker->waiting_lanes[warp] = 0;
  }
  while (run->live > 0) {
    if (run->launch->order == 2) order_threads(run);
    bool has_run = false;
    for (uint32_t i = 0; i < count; i++) {
      if (worker->states[worker->order[i]] != READY) continue;
      resume(run, worker->order[i]);
      has_run = true;
    }
    if (run->at_barrier > 0 && run->at_barrier == run->live) {
      uint32_t site = 0;
      for (uint32_t i = 0; i < count; i++) {
        if (worker->states[i] != AT_BARRIER) continue;
        if (site != 0 && worker->fibers[i].site != site) return false;
        site = worker->fibers[i].site;
      }
      for (uint32_t i = 0; i < count; i++) {
        if (worker->states[i] == AT_BARRIER) worker->states[i] = READY;
      }
      run->at_barrier = 0;
    } else if (!has_run) {
      return false;
    }
  }
  return true;
}

// Where the calling thread's copy of the module's shared memory is.
int locate_shared(struct dl_phdr_info* info, size_t, void* data) {
  Run* run = static_cast<Run*>(data);
  const char* begin = run->launch->kernel->shared_begin;
  for (int i = 0; i < info->dlpi_phnum; i++) {
    const ElfW(Phdr)& segment = info->dlpi_phdr[i];
    const char* image = reinterpret_cast<const char*>(info->dlpi_addr + segment.p_vaddr);
    if (segment.p_type != PT_TLS || begin < image || begin >= image + segment.p_memsz) continue;
    run->shared = static_cast<char*>(info->dlpi_tls_data) + (begin - image);
    run->shared_bytes = run->launch->kernel->shared_end - begin;
    return 1;
  }
  return 0;
}

// --- faults ------------------------------------------------------------------------------------------------

const int SIGNALS[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL};
struct sigaction previous[4];

uint32_t access_kind(void* context) {
#if defined(__x86_64__)
  return static_cast<ucontext_t*>(context)->uc_mcontext.gregs[REG_ERR] & 2 ? 2 : 1;
#else
  (void)context;
  return 0;
#endif
}

void on_signal(int signal_number, siginfo_t* info, void* context) {
  Run* run = current;
  if (run != nullptr && run->is_in_kernel) {
    SimFaultKind kind = FAULT_ACCESS;
    if (signal_number == SIGFPE) kind = FAULT_ARITHMETIC;
    if (signal_number == SIGILL) kind = FAULT_TRAP;
    const char* address = static_cast<const char*>(info->si_addr);
    const SimWorker* worker = run->worker;
    if (kind == FAULT_ACCESS && worker->stacks != nullptr && address >= worker->stacks &&
        address < worker->stacks + worker->stride * THREADS_MAX) {
      kind = FAULT_STACK;
    }
    describe(run, kind, 0);
    run->fault->address = reinterpret_cast<uint64_t>(address);
    run->fault->access = access_kind(context);
    escape(run);
  }
  // Not ours: whoever was here before decides.
  for (int i = 0; i < 4; i++) {
    if (SIGNALS[i] != signal_number) continue;
    if (previous[i].sa_flags & SA_SIGINFO) {
      previous[i].sa_sigaction(signal_number, info, context);
    } else if (previous[i].sa_handler == SIG_DFL) {
      signal(signal_number, SIG_DFL);
      if (info->si_code <= 0) raise(signal_number);  // sent, not caused: returning would not repeat it
    } else if (previous[i].sa_handler != SIG_IGN) {
      previous[i].sa_handler(signal_number);
    }
  }
}

bool make_stacks(SimWorker* worker) {
  if (worker->stacks != nullptr) return true;
  worker->guard_bytes = sysconf(_SC_PAGESIZE);
  worker->stride = worker->guard_bytes + STACK_BYTES * STACK_SCALE;
  void* memory = mmap(nullptr, worker->stride * THREADS_MAX, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) return false;
  worker->stacks = static_cast<char*>(memory);
  for (uint32_t i = 0; i < THREADS_MAX; i++) {
    if (mprotect(worker->stacks + i * worker->stride, worker->guard_bytes, PROT_NONE) != 0) return false;
  }
  return true;
}

// Runs blocks until none is left below block_end, a fault ends the launch, or another worker's fault has.
void run_blocks(Run* run) {
  const SimLaunch* launch = run->launch;
  sim_block_dim = {launch->block, 1, 1};
  sim_grid_dim = {launch->grid_x, launch->grid_y, 1};
  while (__atomic_load_n(launch->is_stopped, __ATOMIC_RELAXED) == 0) {
    const uint64_t block = __atomic_fetch_add(launch->next_block, 1, __ATOMIC_RELAXED);
    if (block >= launch->block_end) {
      // Given back, so that a later call with a higher end misses none. Only a call without other workers has
      // one.
      __atomic_fetch_sub(launch->next_block, 1, __ATOMIC_RELAXED);
      return;
    }
    sim_block_idx = {(uint32_t)(block % launch->grid_x), (uint32_t)(block / launch->grid_x), 0};
    sim_thread_idx = {0, 0, 0};
    run->random = launch->seed ^ block * 0xd1342543de82ef95ull;
    for (size_t i = 0; i < run->shared_bytes; i++) run->shared[i] = POISON;
    run->is_in_kernel = true;
    bool is_finished = true;
    if (launch->kernel->collective) {
      is_finished = run_collective_block(run);
    } else {
      run_plain_block(run);
    }
    run->is_in_kernel = false;
    if (!is_finished) {
      describe_deadlock(run);
      return;
    }
  }
}

SimCounter* counters;

}  // namespace

// --- what kernels call -------------------------------------------------------------------------------------

extern "C" {
__thread SimIndex sim_thread_idx __attribute__((tls_model("initial-exec")));
__thread SimIndex sim_block_idx __attribute__((tls_model("initial-exec")));
__thread SimIndex sim_block_dim __attribute__((tls_model("initial-exec")));
__thread SimIndex sim_grid_dim __attribute__((tls_model("initial-exec")));

void sim_block_barrier(uint32_t site) {
  Run* run = current;
  if (!run->launch->kernel->collective) {
    describe(run, FAULT_PLAIN_MEETS, site);
    escape(run);
  }
  Fiber* fiber = &run->worker->fibers[sim_thread_idx.x];
  run->worker->states[sim_thread_idx.x] = AT_BARRIER;
  fiber->site = site;
  run->at_barrier++;
  pause(run, fiber);
}

uint64_t sim_warp_meet(SimWarpOp op, uint32_t site, uint32_t mask, uint64_t value, uint32_t source_lane) {
  Run* run = current;
  if (!run->launch->kernel->collective) {
    describe(run, FAULT_PLAIN_MEETS, site);
    escape(run);
  }
  const uint32_t thread = sim_thread_idx.x;
  Fiber* fiber = &run->worker->fibers[thread];
  fiber->site = site;
  if ((mask >> thread % LANES & 1) == 0) {
    describe(run, FAULT_WARP, site);
    escape(run);
  }
  fiber->op = op;
  fiber->mask = mask;
  fiber->value = value;
  fiber->source_lane = source_lane;
  run->worker->states[thread] = AT_WARP;
  run->worker->waiting_lanes[thread / LANES] |= 1u << thread % LANES;
  if (complete_warp_op(run, thread / LANES, fiber)) {
    run->worker->states[thread] = RUNNING;
  } else {
    pause(run, fiber);
  }
  return fiber->result;
}

void sim_trap(void) {
  describe(current, FAULT_TRAP, 0);
  escape(current);
}

void sim_list_counter(SimCounter* counter) {
  if (__atomic_exchange_n(&counter->is_listed, 1, __ATOMIC_RELAXED) != 0) return;
  SimCounter* head = __atomic_load_n(&counters, __ATOMIC_RELAXED);
  do {
    counter->next = head;
  } while (!__atomic_compare_exchange_n(&counters, &head, counter, true, __ATOMIC_RELEASE, __ATOMIC_RELAXED));
}
}

// --- what the backend calls --------------------------------------------------------------------------------

// Takes over the signals of faults in kernels; to be called once.
EXPORTED int sim_install_handlers(void) {
  for (int i = 0; i < 4; i++) {
    struct sigaction action = {};
    action.sa_sigaction = on_signal;
    // SA_NODEFER: the handler leaves by a jump, so the signal must not stay blocked.
    action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
    sigemptyset(&action.sa_mask);
    if (sigaction(SIGNALS[i], &action, &previous[i]) != 0) return errno;
  }
  return 0;
}

EXPORTED SimWorker* sim_worker_new(void) { return static_cast<SimWorker*>(calloc(1, sizeof(SimWorker))); }

EXPORTED void sim_run_blocks(const SimLaunch* launch, SimWorker* worker, SimFault* fault) {
  Run run = {};
  run.launch = launch;
  run.worker = worker;
  run.fault = fault;
  if (launch->kernel->collective && !make_stacks(worker)) {
    fault->kind = FAULT_RESOURCES;
    __atomic_store_n(launch->is_stopped, 1, __ATOMIC_RELAXED);
    return;
  }
  if (launch->kernel->shared_end > launch->kernel->shared_begin) dl_iterate_phdr(locate_shared, &run);
  // A fiber's fault may be a full stack, so the handler needs one of its own.
  stack_t host_signal_stack = {};
  sigaltstack(nullptr, &host_signal_stack);
  const bool is_missing = host_signal_stack.ss_flags & SS_DISABLE;
  if (is_missing) {
    stack_t own = {};
    own.ss_sp = worker->signal_stack;
    own.ss_size = sizeof(worker->signal_stack);
    sigaltstack(&own, nullptr);
  }
  Run* outer = current;
  current = &run;
  if (sigsetjmp(run.escape, 0) == 0) {
    run_blocks(&run);
  } else {
    land(&run);
  }
  current = outer;
  if (is_missing) sigaltstack(&host_signal_stack, nullptr);
  if (fault->kind != FAULT_NONE) __atomic_store_n(launch->is_stopped, 1, __ATOMIC_RELAXED);
}

// The counters that were ever hit, as a list; entries are never removed.
EXPORTED SimCounter* sim_counters(void) { return __atomic_load_n(&counters, __ATOMIC_ACQUIRE); }
