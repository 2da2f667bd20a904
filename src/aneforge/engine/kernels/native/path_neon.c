/* The path of 64-bit Arm processors: all of them have NEON. */

#define HAS_FLOATS 1
#include "numbers.h"
#include "lanes_neon.h"
#include "whole.h"

static bool available(void) { return true; }

const struct path path_neon = PATH("neon");
