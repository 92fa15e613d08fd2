/* tests/gpu/bare/jansson.h - the one name that headers of ours mention, for machines without the
 * library: nothing in this build reads or writes JSON. */
#ifndef TESTS_GPU_BARE_JANSSON_H
#define TESTS_GPU_BARE_JANSSON_H

typedef struct json_t json_t;

#endif
