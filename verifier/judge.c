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

static enum judged judge_feedback(const struct judge *j, struct str frame, struct arena *a,
                                  struct score *score, struct buf *out, struct err *e)
{
    struct feedback f;
    if (feedback_decode(frame, a, &f, e) != ERR_OK)
        return judge_malformed(j, frame, a, score, out, e);
    buf_put_str(out, frame);
    return buf_check(out, "feedback", e) == ERR_OK ? JUDGED_FEEDBACK : JUDGED_DROPPED;
}

enum judged judge_frame(const struct judge *j, struct str frame, struct arena *a,
                        struct score *score, struct buf *out, struct err *e)
{
    struct output o;
    buf_reset(out);
    if (is_feedback(frame))
        return judge_feedback(j, frame, a, score, out, e);
    if (output_decode(frame, a, &o, e) != ERR_OK)
        return judge_malformed(j, frame, a, score, out, e);
    const struct check_set *set = find_set(j, o.route);
    if (set)
        check_set_run(set, &o, a, score);
    else
        *score = unscored(&o, o.route, "unknown_route");
    if (encode(j, frame, score, out, e) == ERR_OK)
        return JUDGED_SCORE;
    return judge_malformed(j, frame, a, score, out, e);
}
