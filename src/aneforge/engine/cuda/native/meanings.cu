/* Steps of the mathematics of operations that have no arithmetic of their own: real numbers in float64, integers in
 * their own types, one step at a time and in NumPy's order (engine/dispatch.py, `rounded_meaning`). */

/* Four bits lie in a byte of their own, the others 0 (ml_dtypes). */
enum element { BOOL, INT4, UINT4, INT8, UINT8, INT16, UINT16, INT32, UINT32, INT64, UINT64, HALF, REAL };

/* fp16 here is a real number: what is not a number is an infinity of its sign. */
static inline double real_of(uint16_t half) {
    if ((half & HALF_INFINITY) == HALF_INFINITY) return double_of_bits(((uint64_t)(half >> 15) << 63) | REAL_NAN);
    return decoded(half);
}

static inline int64_t whole_at(const void *from, int64_t type, int64_t place) {
    switch (type) {
    case BOOL: return ((const uint8_t *)from)[place] != 0;
    case INT4: return (int64_t)((((const uint8_t *)from)[place] & 15) ^ 8) - 8;
    case UINT4: return ((const uint8_t *)from)[place] & 15;
    case INT8: return ((const int8_t *)from)[place];
    case UINT8: return ((const uint8_t *)from)[place];
    case INT16: return ((const int16_t *)from)[place];
    case UINT16: return ((const uint16_t *)from)[place];
    case INT32: return ((const int32_t *)from)[place];
    case UINT32: return ((const uint32_t *)from)[place];
    default: return ((const int64_t *)from)[place];
    }
}
static inline double real_at(const void *from, int64_t type, int64_t place) {
    if (type == REAL) return ((const double *)from)[place];
    return type == HALF ? real_of(((const uint16_t *)from)[place]) : (double)whole_at(from, type, place);
}
static inline void put_whole(void *to, int64_t type, int64_t place, int64_t value) {
    switch (type) {
    case BOOL: ((uint8_t *)to)[place] = value != 0; break;
    case INT4: case UINT4: ((uint8_t *)to)[place] = (uint8_t)(value & 15); break;
    case INT8: case UINT8: ((uint8_t *)to)[place] = (uint8_t)value; break;
    case INT16: case UINT16: ((uint16_t *)to)[place] = (uint16_t)value; break;
    case INT32: case UINT32: ((uint32_t *)to)[place] = (uint32_t)value; break;
    case REAL: ((double *)to)[place] = (double)value; break;
    default: ((int64_t *)to)[place] = value; break;
    }
}
/* Cut towards zero; what 64 bits do not hold, and what is not a number, is the least of them, as on x86. */
static inline int64_t whole_of(double value) {
    return value > -0x1p63 && value < 0x1p63 ? (int64_t)value : (int64_t)0x8000000000000000u;
}
static inline void put_real(void *to, int64_t type, int64_t place, double value) {
    if (type == REAL) ((double *)to)[place] = value;
    else if (type == HALF) ((uint16_t *)to)[place] = value != value ? 0 : half_of_double(value);
    else put_whole(to, type, place, whole_of(value));
}

/* Numbers by a scale and a zero point of their channel, whose elements lie `inner` apart: integers as fp16, or fp16 as
 * integers within two, to the nearest, ties away from zero (engine/quantised.py). */
struct scale_channels_args {
    const void *x;
    void *out;
    const double *scales, *zeros; /* of every channel */
    int64_t count, inner, channels, x_type, out_type;
    int64_t no_number; /* what the host makes of a result that is not a number */
    double least, most;
};
KERNEL(scale_channels, 256) {
    for (int64_t i = first_index(); i < a.count; i += index_step()) {
        const double scale = a.scales[i / a.inner % a.channels], zero = a.zeros[i / a.inner % a.channels];
        if (a.out_type == HALF) {
            const double number = ((double)whole_at(a.x, a.x_type, i) - zero) * scale;
            ((uint16_t *)a.out)[i] = number != number ? (uint16_t)a.no_number : half_of_double(number);
        } else {
            const double scaled = (double)decoded(((const uint16_t *)a.x)[i]) / scale;
            const double steps = trunc(scaled + copysign(0.5, scaled)) + zero;
            const double within = steps < a.least ? a.least : steps > a.most ? a.most : steps;
            put_whole(a.out, a.out_type, i, steps != steps ? a.no_number : whole_of(within));
        }
    }
}

enum step {
    STEP_COPY, STEP_WHERE, STEP_EQUAL, STEP_NOT_EQUAL, STEP_GREATER, STEP_GREATER_EQUAL, STEP_LESS, STEP_LESS_EQUAL,
    STEP_AND, STEP_OR, STEP_XOR, STEP_NOT, STEP_ADD, STEP_SUBTRACT, STEP_MULTIPLY, STEP_NEGATIVE, STEP_ABSOLUTE,
    STEP_SQUARE, STEP_MAXIMUM, STEP_MINIMUM, STEP_REMAINDER, STEP_DIVIDE, STEP_FLOOR, STEP_CEIL, STEP_SQRT, STEP_RINT,
    STEP_SIGN, STEP_FLOOR_DIVIDE, STEP_POWER
};

/* The rest of a division with the divisor's sign. `fmod` rounds nothing. */
static inline double real_rest(double x, double y) {
    const double rest = fmod(x, y);
    if (y == 0 || rest != rest) return rest;
    if (rest == 0) return copysign(0.0, y);
    return (rest < 0) != (y < 0) ? rest + y : rest;
}

static inline double real_step(int64_t kind, double x, double y) {
    switch (kind) {
    case STEP_EQUAL: return x == y;
    case STEP_NOT_EQUAL: return x != y;
    case STEP_GREATER: return x > y;
    case STEP_GREATER_EQUAL: return x >= y;
    case STEP_LESS: return x < y;
    case STEP_LESS_EQUAL: return x <= y;
    case STEP_AND: return x != 0 && y != 0;
    case STEP_OR: return x != 0 || y != 0;
    case STEP_XOR: return (x != 0) != (y != 0);
    case STEP_NOT: return x == 0;
    case STEP_ADD: return x + y;
    case STEP_SUBTRACT: return x - y;
    case STEP_MULTIPLY: return x * y;
    case STEP_NEGATIVE: return -x;
    case STEP_ABSOLUTE: return double_of_bits(bits_of_double(x) & 0x7FFFFFFFFFFFFFFFu);
    case STEP_SQUARE: return x * x;
    case STEP_DIVIDE: return x / y;
    case STEP_FLOOR: return floor(x);
    case STEP_CEIL: return ceil(x);
    case STEP_SQRT: return sqrt(x);
    case STEP_RINT: return rint(x);
    case STEP_MAXIMUM: return x > y || x != x ? x : y; /* of equal ones the second, as in NumPy */
    case STEP_MINIMUM: return x < y || x != x ? x : y;
    case STEP_REMAINDER: return real_rest(x, y);
    default: return x;
    }
}

/* Products of numbers without sign, which wrap: as NumPy's `power` of uint64. */
static inline uint64_t raised(uint64_t x, uint64_t times) {
    uint64_t power = 1;
    for (; times; times >>= 1, x *= x)
        if (times & 1) power *= x;
    return power;
}

/* Sums and products are of numbers without sign, which wrap. */
static inline int64_t whole_step(int64_t kind, int64_t x, int64_t y) {
    const int64_t quotient = y == 0 ? 0 : y == -1 ? (int64_t)(0u - (uint64_t)x) : x / y;
    const int64_t rest = y == 0 || y == -1 ? 0 : x - quotient * y;
    const bool below = rest != 0 && (rest < 0) != (y < 0);
    switch (kind) {
    case STEP_EQUAL: return x == y;
    case STEP_NOT_EQUAL: return x != y;
    case STEP_GREATER: return x > y;
    case STEP_GREATER_EQUAL: return x >= y;
    case STEP_LESS: return x < y;
    case STEP_LESS_EQUAL: return x <= y;
    case STEP_AND: return x & y;
    case STEP_OR: return x | y;
    case STEP_XOR: return x ^ y;
    case STEP_NOT: return x == 0;
    case STEP_ADD: return (int64_t)((uint64_t)x + (uint64_t)y);
    case STEP_SUBTRACT: return (int64_t)((uint64_t)x - (uint64_t)y);
    case STEP_MULTIPLY: return (int64_t)((uint64_t)x * (uint64_t)y);
    case STEP_NEGATIVE: return (int64_t)(0u - (uint64_t)x);
    case STEP_ABSOLUTE: return x < 0 ? (int64_t)(0u - (uint64_t)x) : x;
    case STEP_SQUARE: return (int64_t)((uint64_t)x * (uint64_t)x);
    case STEP_MAXIMUM: return x > y ? x : y;
    case STEP_MINIMUM: return x < y ? x : y;
    case STEP_SIGN: return (x > 0) - (x < 0);
    case STEP_FLOOR_DIVIDE: return quotient - below;
    case STEP_REMAINDER: return below ? rest + y : rest;
    case STEP_POWER: return (int64_t)raised((uint64_t)x, (uint64_t)y);
    default: return x;
    }
}

/* One step on every element; `STEP_WHERE` chooses between x and y by z. */
struct step_elements_args {
    const void *x, *y, *z;
    void *out;
    int64_t count, kind, real; /* real: computed in float64 */
    int64_t x_type, y_type, z_type, out_type;
    struct axes axes;
    struct steps x_steps, y_steps, z_steps;
};
KERNEL(step_elements, 256) {
    for (int64_t i = first_index(); i < a.count; i += index_step()) {
        const int64_t x = place_of(i, a.axes, a.x_steps), y = place_of(i, a.axes, a.y_steps);
        const bool other = a.kind == STEP_WHERE && !whole_at(a.z, a.z_type, place_of(i, a.axes, a.z_steps));
        if (a.real) {
            const double left = real_at(a.x, a.x_type, x), right = real_at(a.y, a.y_type, y);
            put_real(a.out, a.out_type, i, other ? right : real_step(a.kind, left, right));
        } else {
            const int64_t left = whole_at(a.x, a.x_type, x), right = whole_at(a.y, a.y_type, y);
            put_whole(a.out, a.out_type, i, other ? right : whole_step(a.kind, left, right));
        }
    }
}

enum fold { FOLD_SUM, FOLD_LARGEST, FOLD_SMALLEST, FOLD_PLACE_OF_LARGEST, FOLD_PLACE_OF_SMALLEST };

/* The numbers of a row made one, or the place of the first of the largest or smallest; what is not a number goes before
 * all others. Real numbers are added one after the other, from 0 on. */
struct fold_elements_args {
    const void *x;
    void *out;
    int64_t count, kind, x_type, out_type;
    struct rows rows;
};
KERNEL(fold_elements, 256) {
    for (int64_t i = first_index(); i < a.count; i += index_step()) {
        const int64_t begin = place_of(i, a.rows.axes, a.rows.steps);
        const bool largest = a.kind == FOLD_LARGEST || a.kind == FOLD_PLACE_OF_LARGEST;
        int64_t place = 0;
        if (a.x_type >= HALF) {
            double best = real_at(a.x, a.x_type, begin), sum = 0.0 + best;
            for (int64_t j = 1; j < a.rows.length; j++) {
                const double here = real_at(a.x, a.x_type, begin + element_of(a.rows, j));
                sum = sum + here;
                if (best == best && (here != here || (largest ? here > best : here < best))) best = here, place = j;
            }
            if (a.kind >= FOLD_PLACE_OF_LARGEST) put_whole(a.out, a.out_type, i, place);
            else put_real(a.out, a.out_type, i, a.kind == FOLD_SUM ? sum : best);
            continue;
        }
        int64_t found = whole_at(a.x, a.x_type, begin);
        for (int64_t j = 1; j < a.rows.length; j++) {
            const int64_t here = whole_at(a.x, a.x_type, begin + element_of(a.rows, j));
            if (a.kind == FOLD_SUM) found = (int64_t)((uint64_t)found + (uint64_t)here);
            else if (largest ? here > found : here < found) found = here, place = j;
        }
        put_whole(a.out, a.out_type, i, a.kind >= FOLD_PLACE_OF_LARGEST ? place : found);
    }
}

/* Sums from the start of a row on, one after the other; results lie as the rows do. */
struct cumulate_args {
    const void *x;
    void *out;
    int64_t count, type;
    struct rows rows;
};
KERNEL(cumulate, 256) {
    for (int64_t i = first_index(); i < a.count; i += index_step()) {
        const int64_t begin = place_of(i, a.rows.axes, a.rows.steps);
        double sum = 0;
        int64_t whole = 0;
        for (int64_t j = 0; j < a.rows.length; j++) {
            const int64_t at = begin + element_of(a.rows, j);
            if (a.type == REAL) {
                sum = j ? sum + ((const double *)a.x)[at] : ((const double *)a.x)[at];
                ((double *)a.out)[at] = sum;
            } else {
                whole = (int64_t)((uint64_t)whole + (uint64_t)whole_at(a.x, a.type, at));
                put_whole(a.out, a.type, at, whole);
            }
        }
    }
}

/* The places of a row's elements in their order, equal ones by place: every thread finds where its element comes. */
struct rank_args {
    const void *x;
    int32_t *out; /* lies as the rows do */
    int64_t count, type; /* count: elements of all rows */
    struct rows rows;
};
KERNEL(rank, 256) {
    for (int64_t i = first_index(); i < a.count; i += index_step()) {
        const int64_t begin = place_of(i / a.rows.length, a.rows.axes, a.rows.steps), own = i % a.rows.length;
        const int64_t whole = a.type >= HALF ? 0 : whole_at(a.x, a.type, begin + element_of(a.rows, own));
        const double real = a.type >= HALF ? real_at(a.x, a.type, begin + element_of(a.rows, own)) : 0;
        int64_t before = 0;
        for (int64_t j = 0; j < a.rows.length; j++) {
            const int64_t at = begin + element_of(a.rows, j);
            if (a.type >= HALF) {
                const double here = real_at(a.x, a.type, at);
                before += here < real || (here == real && j < own);
            } else {
                const int64_t here = whole_at(a.x, a.type, at);
                before += here < whole || (here == whole && j < own);
            }
        }
        a.out[begin + element_of(a.rows, before)] = (int32_t)own;
    }
}

/* Sums of products of integers, which wrap, so that their order does not matter: x [batch, rows, depth] times
 * y [batch, depth, columns]. Tables say where the numbers of a line and those of a step lie, as for `product`. */
struct integer_product_args {
    const void *x, *y;
    void *out;
    int64_t count, rows, depth, columns, x_type, y_type, out_type;
    const int32_t *x_places, *y_places; /* of every batch */
    const int32_t *x_lines, *y_lines;   /* of every row or column */
    const int32_t *x_steps, *y_steps;   /* of every number of it */
};
KERNEL(integer_product, 256) {
    for (int64_t i = first_index(); i < a.count; i += index_step()) {
        const int64_t column = i % a.columns, row = i / a.columns % a.rows, batch = i / a.columns / a.rows;
        const int64_t x = a.x_places[batch] + a.x_lines[row], y = a.y_places[batch] + a.y_lines[column];
        uint64_t sum = 0;
        for (int64_t k = 0; k < a.depth; k++)
            sum += (uint64_t)whole_at(a.x, a.x_type, x + a.x_steps[k]) * (uint64_t)whole_at(a.y, a.y_type, y + a.y_steps[k]);
        put_whole(a.out, a.out_type, i, (int64_t)sum);
    }
}

/* Among all pairs of fp16 numbers no power is as near to the middle between two of them as this, relative to itself,
 * without being there (tools/power_ties.py): what a `pow` that errs by a few units of 2^-53 finds so near is there. */
#define NEAREST_POWER 0x1p-47

/* x^y of fp16 numbers as the mathematics has it, rounded once. */
struct powers_args {
    const uint16_t *x, *y;
    uint16_t *out;
    int64_t count;
    struct axes axes;
    struct steps x_steps, y_steps;
};
KERNEL(powers, 256) {
    for (int64_t i = first_index(); i < a.count; i += index_step()) {
        const double x = real_of(a.x[place_of(i, a.axes, a.x_steps)]), y = real_of(a.y[place_of(i, a.axes, a.y_steps)]);
        double power = pow(x, y);
        const double size = magnitude_of(power);
        if (size >= 0x1p-26 && size < 0x1p17) {
            const double unit = size < 0x1p-14 ? 0x1p-25 : power_of_two(leading_exponent(size) - 11);
            const double middle = rint(power / unit) * unit;
            if (magnitude_of(power - middle) < size * NEAREST_POWER) power = middle;
        }
        a.out[i] = power != power ? 0 : half_of_double(power);
    }
}

enum response { RESPONSE_POWER, RESPONSE_ROOT, RESPONSE_ITSELF, RESPONSE_SQUARE, RESPONSE_THREE_QUARTERS };

/* More than any two `pow` differ by, relative to the power: those of CUDA and of NumPy err by a few units of 2^-53. */
#define POWERS_APART 0x1p-47

static inline double power_of_response(int64_t kind, double base, double beta) {
    const double root = sqrt(base);
    switch (kind) {
    case RESPONSE_ROOT: return root;
    case RESPONSE_ITSELF: return base;
    case RESPONSE_SQUARE: return base * base;
    case RESPONSE_THREE_QUARTERS: return root * sqrt(root);
    default: return pow(base, beta);
    }
}

/* x / (k + factor * sum of the squares of neighbouring channels)^beta, rounded once: channels are `inner` apart, and the
 * squares of those from `before` to `after` around one are added in turn. Where another `pow` might lead to another
 * fp16 number, the host decides. */
struct response_norm_args {
    const uint16_t *x;
    uint16_t *out;
    uint32_t *undecided; /* for every sample, or none */
    int64_t count, sample_count, channels, inner, before, after, kind;
    double k, factor, beta;
};
KERNEL(response_norm, 256) {
    for (int64_t i = first_index(); i < a.count; i += index_step()) {
        const int64_t channel = i / a.inner % a.channels;
        const int64_t first = channel < a.before ? 0 : channel - a.before;
        const int64_t last = channel + a.after < a.channels ? channel + a.after : a.channels - 1;
        double sum = 0;
        for (int64_t other = first; other <= last; other++) {
            const double value = real_of(a.x[i + (other - channel) * a.inner]);
            sum = sum + value * value;
        }
        const double quotient = real_of(a.x[i]) / power_of_response(a.kind, a.k + a.factor * sum, a.beta);
        a.out[i] = quotient != quotient ? 0 : half_of_double(quotient);
        if (a.undecided && half_of_double(quotient * (1 - POWERS_APART)) != half_of_double(quotient * (1 + POWERS_APART)))
            atomicOr(&a.undecided[i / a.sample_count], 1u);
    }
}

/* Whether an integer lies outside of two, for every sample: what the host then says of them stops a run. */
struct note_outside_args {
    const void *x;
    uint32_t *found;
    int64_t count, sample_count, type, least, most;
    struct axes axes;
    struct steps steps;
};
KERNEL(note_outside, 256) {
    for (int64_t i = first_index(); i < a.count; i += index_step()) {
        const int64_t here = whole_at(a.x, a.type, place_of(i, a.axes, a.steps));
        if (here < a.least || here > a.most) atomicOr(&a.found[i / a.sample_count], 1u);
    }
}
