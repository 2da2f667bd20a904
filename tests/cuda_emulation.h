/* A grid on the host: blocks one after the other, the threads of a block as fibers that meet at barriers. */

#include <ucontext.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <vector>

#define __shared__ static
#define __restrict__

struct triple {
    unsigned x, y, z;
};
static triple blockIdx, blockDim, gridDim, threadIdx;

struct fiber {
    ucontext_t context;
    std::vector<char> stack;
    bool done;
    unsigned number;
};
static ucontext_t host_context;
static fiber *running;
static std::function<void()> body;

static void start_fiber() {
    body();
    running->done = true;
    swapcontext(&running->context, &host_context);
}

/* A barrier: every fiber comes here before any goes on, since the host resumes them in turn. */
static void __syncthreads() {
    fiber *const self = running;
    swapcontext(&self->context, &host_context);
    threadIdx = {self->number, 0, 0};
}

static void run_block(unsigned width) {
    static std::vector<fiber> fibers;
    if (fibers.size() < width) fibers.resize(width);
    for (unsigned i = 0; i < width; i++) {
        fiber &one = fibers[i];
        if (one.stack.empty()) one.stack.resize(1 << 16);
        getcontext(&one.context);
        one.context.uc_stack.ss_sp = one.stack.data();
        one.context.uc_stack.ss_size = one.stack.size();
        one.context.uc_link = &host_context;
        one.done = false;
        one.number = i;
        makecontext(&one.context, start_fiber, 0);
    }
    for (bool left = true; left;) {
        left = false;
        for (unsigned i = 0; i < width; i++) {
            if (fibers[i].done) continue;
            running = &fibers[i];
            threadIdx = {i, 0, 0};
            swapcontext(&host_context, &fibers[i].context);
            left |= !fibers[i].done;
        }
    }
}

static void emulate(std::function<void()> kernel, int64_t x, int64_t y, int64_t z, int64_t width) {
    body = kernel;
    gridDim = {(unsigned)x, (unsigned)y, (unsigned)z};
    blockDim = {(unsigned)width, 1, 1};
    for (unsigned k = 0; k < z; k++)
        for (unsigned j = 0; j < y; j++)
            for (unsigned i = 0; i < x; i++) {
                blockIdx = {i, j, k};
                run_block((unsigned)width);
            }
}

template <class T> static inline T atomicMax(T *at, T value) {
    const T before = *at;
    if (value > before) *at = value;
    return before;
}
static inline uint32_t atomicMin(uint32_t *at, uint32_t value) {
    const uint32_t before = *at;
    if (value < before) *at = value;
    return before;
}
static inline uint32_t atomicAdd(uint32_t *at, uint32_t value) {
    const uint32_t before = *at;
    *at += value;
    return before;
}
static inline void __threadfence() {} /* blocks run one after the other */
static inline uint32_t atomicOr(uint32_t *at, uint32_t value) {
    const uint32_t before = *at;
    *at |= value;
    return before;
}
