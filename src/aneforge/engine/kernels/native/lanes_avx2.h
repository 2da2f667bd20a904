/* Vectors of AVX2: eight floats or four doubles. */

#ifndef ANEFORGE_LANES_AVX2_H
#define ANEFORGE_LANES_AVX2_H

#include <immintrin.h>

#include "shuffle_x86.h"

#define FLOAT_LANES 8
#define FLOAT_WIDTH 2
#define REALS 4 /* doubles in a vector */
#define OWN_DOUBLES 0
#define DOUBLE_ROWS 2

static inline __m256 spread_float(float value) { return _mm256_set1_ps(value); }

static inline __m256d spread_double(double value) { return _mm256_set1_pd(value); }

static inline __m256 fused_floats(__m256 x, __m256 y, __m256 sum) { return _mm256_fmadd_ps(x, y, sum); }

static inline __m256d fused(__m256d x, __m256d y, __m256d sum) { return _mm256_fmadd_pd(x, y, sum); }

#include "floats.h"

#endif
