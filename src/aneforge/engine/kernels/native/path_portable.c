/* The path of any processor: plain C, sums of products in double. */

#define HAS_FLOATS 0
#include "numbers.h"
#include "lanes_portable.h"
#include "multiply.h"
#include "planar.h"
#include "reduce.h"

static bool available(void) { return true; }

const struct path path_portable = {
    .name = "portable",
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
