/* The path of processors with AVX2 and FMA. */

#define HAS_FLOATS 1
#include "numbers.h"
#include "lanes_avx2.h"
#include "whole.h"

static bool available(void) {
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}

const struct path path_avx2 = PATH("avx2");
