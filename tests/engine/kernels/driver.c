/* Runs calls of the kernels that come on the standard input and writes their results to the standard output, until the
 * input ends. It lets paths of other processors be tested under emulation, where there is no Python.
 *
 * All numbers are 64-bit words. A call is: which function, path, threads, a count of arguments; for each argument its
 * kind (0 a number, 1 an address within the data, 2 that of the result, 3 null) and its value; the sizes of data and
 * result; the data. The answer is the status, then the result.
 */

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "kernels.h"

enum function { MATMUL, CONVOLUTION, REDUCE, FROM_FLOAT, FROM_DOUBLE, LOOKUP, PAIRS, DISTANCES, MAGNITUDE, NORM, NAME };
enum kind { NUMBER, ADDRESS, RESULT, NOTHING };

static void take(void *to, size_t size) {
    if (fread(to, 1, size, stdin) != size) exit(3);
}

static int64_t word(void) {
    int64_t value;
    take(&value, sizeof value);
    return value;
}

/* Structures of the interface consist of 64-bit words alone, so the arguments are the structure. */
static int64_t run(int64_t function, const int64_t *a, char *out, int32_t path, int32_t threads) {
    switch (function) {
        case MATMUL: return aneforge_run_matmul((const struct aneforge_matmul *)a, path, threads);
        case CONVOLUTION: return aneforge_run_convolution((const struct aneforge_convolution *)a, path, threads);
        case REDUCE: return aneforge_run_reduce((const struct aneforge_reduce *)a, path, threads);
        case FROM_FLOAT: return aneforge_from_float((float *)a[0], (uint16_t *)a[1], a[2], path, threads);
        case FROM_DOUBLE: return aneforge_from_double((double *)a[0], (uint16_t *)a[1], a[2], path, threads);
        case LOOKUP:
            return aneforge_lookup((uint16_t *)a[0], (uint16_t *)a[1], (uint16_t *)a[2], a[3], path, threads);
        case PAIRS: return aneforge_run_pairs((const struct aneforge_pairs *)a, path, threads);
        case DISTANCES: return aneforge_run_distances((const struct aneforge_distances *)a, path, threads);
        case MAGNITUDE: return aneforge_largest_magnitude((uint16_t *)a[0], a[1], (uint16_t *)a[2], path, threads);
        case NORM: return aneforge_run_norm((const struct aneforge_norm *)a, path, threads);
        case NAME: snprintf(out, 16, "%s", aneforge_path(path) ? aneforge_path(path) : ""); return 0;
    }
    return -1;
}

int main(void) {
    int64_t function;
    while (fread(&function, sizeof function, 1, stdin) == 1) {
        int64_t path = word(), threads = word(), count = word(), kinds[32], arguments[32];
        for (int64_t i = 0; i < count; i++) {
            kinds[i] = word();
            arguments[i] = word();
        }
        const size_t data_size = (size_t)word(), out_size = (size_t)word();
        char *const data = aligned_alloc(64, (data_size + 64) / 64 * 64);
        char *const out = aligned_alloc(64, (out_size + 64) / 64 * 64);
        if (!data || !out) return 4;
        take(data, data_size);
        for (int64_t i = 0; i < count; i++) {
            if (kinds[i] == ADDRESS) arguments[i] = (int64_t)(intptr_t)(data + arguments[i]);
            if (kinds[i] == RESULT) arguments[i] = (int64_t)(intptr_t)out;
            if (kinds[i] == NOTHING) arguments[i] = 0;
        }
        const int64_t status = run(function, arguments, out, (int32_t)path, (int32_t)threads);
        fwrite(&status, sizeof status, 1, stdout);
        fwrite(out, 1, out_size, stdout);
        fflush(stdout);
        free(data);
        free(out);
    }
    return 0;
}
