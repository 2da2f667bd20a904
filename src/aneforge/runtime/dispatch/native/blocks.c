/* Completion blocks: closures in the layout that compilers give them (the block ABI of clang), made without one. */

#include <stdlib.h>

#include "ane_open.h"
#include "report.h"

struct descriptor {
    unsigned long reserved, size;
};

struct block {
    const void *class;
    int flags, reserved;
    void (*invoke)(struct block *block);
    const struct descriptor *descriptor;
    ane_completion function;
    void *context;
};

static const struct descriptor descriptor = {0, sizeof(struct block)};

static void invoke(struct block *block) { block->function(block->context); }

void *ane_e5rt_make_completion_block(ane_completion function, void *context) {
    if (function == NULL) {
        report("make_completion_block: the function is NULL");
        return NULL;
    }
    struct block *block = malloc(sizeof *block);
    if (block != NULL) *block = (struct block){NULL, 0, 0, invoke, &descriptor, function, context};
    return block;
}

void ane_e5rt_free_completion_block(void *block) { free(block); }
