/* Evaluation in the wide precision. */
#include "verifier/math/numeric.h"

#define REAL     math_wide
#define CPLX     math_wide_complex
#define FN(name) MATH_WIDE(name)
#define EVAL     math_eval_wide
#include "verifier/math/numeric_body.h"
