/* Decodes, scores and encodes one frame. All texts of the score are borrowed from the frame's
 * arena, the check sets or the frame itself. */
#include "verifier/judge.h"

#include "schemas/feedback.h"

#include <string.h>

static const struct check_set *find_set(const struct judge *j, struct str route)
{
    for (uint32_t i = 0; i < j->n_set; i++)
        if (str_eq(check_set_name(j->set[i]), route))
            return j->set[i];
    return NULL;
}

static struct score unscored(const struct output *o, struct str check_set, const char *reason)
{
    return (struct score){.check_set = check_set.n ? check_set : STR("none"),
                          .version = STR("none"),
                          .engine = o->engine,
                          .request_id = o->request_id,
                          .epoch = o->epoch,
                          .seq = o->seq,
                          .choice = o->choice,
                          .reason = str_from(reason)};
}

static int encode(const struct judge *j, struct str frame, struct score *s, struct buf *out,
                  struct err *e)
{
    s->verifier = j->verifier;
    s->output_json = frame;
    int rc = score_encode(s, out, e);
    return rc == ERR_OK ? buf_check(out, "score", e) : rc;
}

static bool is_feedback(struct str frame)
{
    /* "schema" stands first in every message of ours; what follows decides, not this look. */
    struct str head = str_slice(frame, 0, 64);
    return str_find(head, STR(FEEDBACK_SCHEMA), 0) >= 0;
}

static enum judged judge_malformed(const struct judge *j, struct str frame, struct arena *a,
                                   struct score *score, struct buf *out, struct err *e)
{
    struct output key;
    struct err ignored; /* the first error says what is wrong with the frame */
    if (output_decode_key(frame, a, &key, &ignored) != ERR_OK)
        return JUDGED_DROPPED;
    *score = unscored(&key, key.route, "malformed");
    return encode(j, frame, score, out, e) == ERR_OK ? JUDGED_MALFORMED : JUDGED_DROPPED;
}

static void begin_feedback(struct judging *g)
{
    struct feedback f;
    bool is_good = feedback_decode(g->frame, g->arena, &f, &g->error) == ERR_OK;
    g->judged = is_good ? JUDGED_FEEDBACK : JUDGED_MALFORMED;
}

bool judge_begin(struct judging *g)
{
    g->judged = JUDGED_SCORE;
    g->is_running = false;
    if (is_feedback(g->frame)) {
        begin_feedback(g);
        return true;
    }
    if (output_decode(g->frame, g->arena, &g->output, &g->error) != ERR_OK) {
        g->judged = JUDGED_MALFORMED;
        return true;
    }
    const struct check_set *set = find_set(g->judge, g->output.route);
    if (!set) {
        g->score = unscored(&g->output, g->output.route, "unknown_route");
        return true;
    }
    g->is_running = true;
    g->run = (struct check_run){.set = set,
                                .output = &g->output,
                                .arena = g->arena,
                                .score = &g->score,
                                .clock = g->judge->clock,
                                .remote = g->remote,
                                .refusal = g->refusal,
                                .skip = g->skip,
                                .slice_us = g->slice_us,
                                .on_ready = g->on_ready,
                                .ctx = g->ctx};
    return check_set_begin(&g->run);
}

bool judge_is_heavy(const struct judging *g)
{
    return g->is_running && g->run.is_heavy;
}

bool judge_resume(struct judging *g)
{
    return check_set_resume(&g->run);
}

static enum judged pass_feedback(const struct judging *g, struct buf *out, struct err *e)
{
    buf_put_str(out, g->frame);
    return buf_check(out, "feedback", e) == ERR_OK ? JUDGED_FEEDBACK : JUDGED_DROPPED;
}

enum judged judge_end(struct judging *g, struct buf *out, struct err *e)
{
    buf_reset(out);
    if (g->is_running)
        check_set_end(&g->run);
    if (g->judged == JUDGED_FEEDBACK)
        return pass_feedback(g, out, e);
    if (g->judged == JUDGED_SCORE &&
        encode(g->judge, g->frame, &g->score, out, &g->error) == ERR_OK)
        return JUDGED_SCORE;
    if (e)
        *e = g->error;
    buf_reset(out);
    return judge_malformed(g->judge, g->frame, g->arena, &g->score, out, e);
}

enum judged judge_frame(const struct judge *j, struct str frame, struct arena *a,
                        struct score *score, struct buf *out, struct err *e)
{
    struct judging g = {.judge = j, .frame = frame, .arena = a, .refusal = "not_asked"};
    enum judged judged = JUDGED_DROPPED;
    if (judge_begin(&g)) /* always, without a loop */
        judged = judge_end(&g, out, e);
    *score = g.score;
    return judged;
}
