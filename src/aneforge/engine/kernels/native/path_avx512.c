/* The path of processors with AVX-512 (F, BW, DQ, VL) and FMA. */

#define HAS_FLOATS 1
#include "numbers.h"
#include "lanes_avx512.h"
#include "whole.h"

static bool available(void) {
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("fma");
}

const struct path path_avx512 = PATH("avx512");
