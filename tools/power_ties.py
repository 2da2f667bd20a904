"""How near powers of fp16 numbers come to the middle between two of them: what `powers` of the GPU engine rests on.

    python tools/power_ties.py

Goes through all pairs of positive fp16 numbers and exponents whose power is in the range of fp16 (about a minute on one
core, with a C compiler) and prints how many powers are such a middle, and the least distance of all others, relative to
the power. Negative bases have the same magnitudes.
"""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

TEXT = """
#include <math.h>
double nearest(long *pairs, long *middles) {
    static double numbers[0x7C00];
    double least = 1;
    for (int i = 0; i < 0x7C00; i++) numbers[i] = i >> 10 ? ldexp(1024 + (i & 1023), (i >> 10) - 25) : ldexp(i, -24);
    for (int i = 1; i < 0x7C00; i++)
        for (int sign = -1; sign <= 1; sign += 2)
            for (int j = 1; j < 0x7C00; j++) {
                const double y = sign * numbers[j], exponent = y * log2(numbers[i]);
                if (exponent > 16.5 || exponent < -26.5) break;
                if (fabs(exponent) < 0x1p-14) continue; /* nearer to 1 than any middle */
                const double power = pow(numbers[i], y);
                int high;
                frexp(power, &high);
                const double unit = power < 0x1p-14 ? 0x1p-25 : ldexp(1, high - 12), units = power / unit;
                const double away = fabs(units - rint(units)) * unit / power;
                ++*pairs;
                if (!((long)rint(units) & 1) && power < 65000) continue; /* a number of fp16 */
                if (away == 0) ++*middles;
                else if (away < least) least = away;
            }
    return log2(least);
}
"""


def main() -> None:
    """Print the figures."""
    compiler = shutil.which("cc") or sys.exit("a C compiler is needed")
    with tempfile.TemporaryDirectory() as folder:
        source, built = Path(folder) / "ties.c", Path(folder) / "ties.so"
        source.write_text(TEXT, encoding="utf-8")
        subprocess.run([compiler, "-O2", "-shared", "-fPIC", "-o", built, source, "-lm"], check=True)  # noqa: S603 - a compiler
        library = ctypes.CDLL(str(built))
        library.nearest.restype = ctypes.c_double
        pairs, middles = ctypes.c_long(), ctypes.c_long()
        least = library.nearest(ctypes.byref(pairs), ctypes.byref(middles))
    sys.stdout.write(
        f"{pairs.value:,} powers, {middles.value} of them between two numbers; all others at least 2^{least:.2f} away\n"
    )


if __name__ == "__main__":
    main()
