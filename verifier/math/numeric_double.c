/* Evaluation in double precision. */
#include "verifier/math/numeric.h"

#define REAL     double
#define CPLX     double _Complex
#define FN(name) name
#define EVAL     math_eval_double
#include "verifier/math/numeric_body.h"
