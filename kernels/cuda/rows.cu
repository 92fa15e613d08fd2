/* Row kernels. */
#include "kernels/cuda/dialect.h"
