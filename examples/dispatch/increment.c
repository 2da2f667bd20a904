#include <stdio.h>

#include "ane_open.h"

int main(void) {
    const char *in[] = {"x"}, *out[] = {"y"};
    const size_t bytes[] = {4 * sizeof(uint16_t)};
    const uint16_t values[] = {0x3c00, 0x6800, 0x7bff, 0x0001}; /* 1, 2048, 65504, 2^-24 */
    uint16_t found[4];
    ane_program program = ane_e5rt_program_compile("examples/dispatch/increment.mil", NULL, ANE_ENGINE, in, bytes, 1,
                                                   out, bytes, 1);
    if (program == NULL) return 1;
    if (ane_e5rt_program_set_input_fp16(program, "x", values, 4) != 0) return 1;
    if (ane_e5rt_program_execute(program) != 0) return 1;
    if (ane_e5rt_program_get_output_fp16(program, "y", found, 4) != 0) return 1;
    for (int i = 0; i < 4; i++) printf("%04x + 1 = %04x\n", values[i], found[i]);
    ane_e5rt_program_release(program);
    return 0;
}
