/* Everything that is compiled anew for each path, and the table of it. A path includes its lanes first, and says with
   HAS_FLOATS whether sums of products are taken in float lanes. */

#include "depthwise.h"
#include "norm.h"
#include "planar.h"
#include "reduce.h"

#define PATH(path_name) \
    { \
        .name = path_name, \
        .available = available, \
        .limit_bytes = sizeof(limit), \
        .task_bytes = task_bytes, \
        .packing_bytes = packing_bytes, \
        .pack_panels = pack_panels, \
        .run_tasks = run_tasks, \
        .depthwise_bytes = depthwise_bytes, \
        .run_depthwise = run_depthwise, \
        .from_float = from_float, \
        .from_double = from_double, \
        .from_host = from_host, \
        .lookup = lookup, \
        .pairs = pairs, \
        .distances = distances, \
        .decode = decode, \
        .largest_half = largest_half, \
        .reduce = reduce, \
        .norm = norm, \
    }
