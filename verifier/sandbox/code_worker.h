/* verifier/sandbox/code_worker.h - the worker process of the check `code`: one JSON line in, one
 * confined run, one JSON line out. The verifier starts itself with this argument. */
#ifndef VERIFIER_SANDBOX_CODE_WORKER_H
#define VERIFIER_SANDBOX_CODE_WORKER_H

#include "common/json.h"

#define CODE_WORKER "code-worker"

/* Standard input to standard output until the end of input; exit code. */
int code_worker_run(void);
/* One question: {id, code, tests, program, readable, cpu_seconds, wall_ms, memory_mib, output_kib}.
 * The answer as program.h wants it. A program of one path is Python with our harness; one with
 * arguments gets code and tests as its input and passes with exit code 0. NULL: no memory. */
json_t *code_worker_answer(struct str question);

#endif
