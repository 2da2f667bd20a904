/* The path of processors with AVX2 and FMA. */

#define HAS_FLOATS 1
#include "numbers.h"
#include "lanes_avx2.h"
#include "multiply.h"
#include "planar.h"
#include "reduce.h"

static bool available(void) {
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}

const struct path path_avx2 = {
    .name = "avx2",
    .available = available,
    .limit_bytes = sizeof(limit),
    .task_bytes = task_bytes,
    .pack_panels = pack_panels,
    .run_tasks = run_tasks,
    .from_float = from_float,
    .from_double = from_double,
    .lookup = lookup,
    .pairs = pairs,
    .distances = distances,
    .largest_half = largest_half,
    .reduce = reduce,
};
