/* A message under way: bytes that grow, and a reader that never leaves them. Numbers have this machine's order, since
 * both ends are on it. */

#ifndef ANE_OPEN_BYTES_H
#define ANE_OPEN_BYTES_H

#include <stddef.h>
#include <stdint.h>

struct bytes {
    uint8_t *data;
    size_t length, capacity;
    int failed; /* No memory: the message must not be sent. */
};

void bytes_add(struct bytes *bytes, const void *data, size_t length);
void bytes_add_u32(struct bytes *bytes, uint32_t value);
void bytes_add_u64(struct bytes *bytes, uint64_t value);
void bytes_add_text(struct bytes *bytes, const char *text);
void bytes_free(struct bytes *bytes);

#endif
