/* controller/sample_frame.h - score frames as a verifier sends them; for tests and measurements. */
#ifndef CONTROLLER_SAMPLE_FRAME_H
#define CONTROLLER_SAMPLE_FRAME_H

#include "common/test.h"
#include "schemas/score.h"

#include <stdio.h>

struct sample {
    uint64_t seq, revision;
    const char *route, *arm, *experiment;
    double propensity, reward; /* reward < 0: unscored */
};

/* The frame of output seq of engine e1, epoch 9; times to the first and from it to the last token.
 * Fails the running test on an error. */
static inline void sample_frame_timed(const struct sample *m, int64_t now_us, uint64_t ttft_us,
                                      uint64_t decode_us, struct buf *frame)
{
    char id[32];
    struct buf inner;
    struct err e = {0};
    buf_init(&inner, MiB);
    snprintf(id, sizeof id, "r%llu", (unsigned long long)m->seq);
    struct output o = {.engine = STR("e1"),
                       .epoch = 9,
                       .seq = m->seq,
                       .request_id = str_from(id),
                       .route = str_from(m->route),
                       .revision = m->revision,
                       .arm = str_from(m->arm),
                       .experiment = str_from(m->experiment),
                       .propensity = m->propensity,
                       .admission = m->seq,
                       .text = STR("an answer"),
                       .finish_reason = STR("stop"),
                       .prompt_tokens = 5,
                       .completion_tokens = 2,
                       .ttft_us = ttft_us,
                       .decode_us = decode_us,
                       .created_us = now_us - 100000};
    assert_ok(output_encode(&o, &inner, &e), &e);
    struct score sc = {.verifier = STR("v1"),
                       .check_set = o.route,
                       .version = STR("abc"),
                       .engine = o.engine,
                       .request_id = o.request_id,
                       .epoch = o.epoch,
                       .seq = o.seq,
                       .is_scored = m->reward >= 0,
                       .reward = m->reward,
                       .n_check = 1,
                       .check = {{.id = STR("c"),
                                  .kind = STR("exact"),
                                  .outcome = m->reward >= 0 ? SCORE_VALUE : SCORE_UNSCORED,
                                  .value = m->reward,
                                  .weight = 1}},
                       .output_json = buf_str(&inner)};
    if (m->reward < 0)
        sc.reason = STR("timeout");
    buf_reset(frame);
    assert_ok(score_encode(&sc, frame, &e), &e);
    buf_free(&inner);
}

static inline void sample_frame(const struct sample *m, int64_t now_us, struct buf *frame)
{
    sample_frame_timed(m, now_us, 0, 0, frame);
}

#endif
