#include "bytes.h"

#include <stdlib.h>
#include <string.h>

static int make_room(struct bytes *bytes, size_t length) {
    if (bytes->failed) return 0;
    if (length <= bytes->capacity - bytes->length) return 1;
    const size_t wanted = (bytes->length + length) * 2;
    uint8_t *grown = realloc(bytes->data, wanted);
    if (grown == NULL) {
        bytes->failed = 1;
        return 0;
    }
    bytes->data = grown;
    bytes->capacity = wanted;
    return 1;
}

void bytes_add(struct bytes *bytes, const void *data, size_t length) {
    if (!make_room(bytes, length)) return;
    memcpy(bytes->data + bytes->length, data, length);
    bytes->length += length;
}

void bytes_add_u32(struct bytes *bytes, uint32_t value) { bytes_add(bytes, &value, sizeof value); }

void bytes_add_u64(struct bytes *bytes, uint64_t value) { bytes_add(bytes, &value, sizeof value); }

void bytes_add_text(struct bytes *bytes, const char *text) {
    const size_t length = strlen(text);
    bytes_add_u32(bytes, (uint32_t)length);
    bytes_add(bytes, text, length);
}

void bytes_free(struct bytes *bytes) {
    free(bytes->data);
    *bytes = (struct bytes){0};
}
