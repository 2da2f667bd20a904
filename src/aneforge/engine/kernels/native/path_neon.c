/* The path of 64-bit Arm processors: all of them have NEON. */

#define HAS_FLOATS 1
#include "numbers.h"
#include "lanes_neon.h"
#include "multiply.h"
#include "planar.h"
#include "reduce.h"

static bool available(void) { return true; }

const struct path path_neon = {
    .name = "neon",
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
