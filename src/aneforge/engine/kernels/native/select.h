/* Which path runs. */

#ifndef ANEFORGE_SELECT_H
#define ANEFORGE_SELECT_H

#include "path.h"

/* Path number `number` counted from the best that this processor has, or null. */
const struct path *path_numbered(int32_t number);

#endif
