/* The path of any processor: plain C, sums of products in double. */

#define HAS_FLOATS 0
#include "numbers.h"
#include "lanes_portable.h"
#include "whole.h"

static bool available(void) { return true; }

const struct path path_portable = PATH("portable");
