/* Decoding and sorting of frames.
 *
 * A frame is a score with its output inside, or feedback that a verifier passed on. Everything in
 * it is hostile until the codecs accepted it. What has a readable key but no usable rest is stored
 * as a reject: else its engine would send it again for ever. */
#include "controller/intake.h"

#include <stdlib.h>
#include <string.h>

enum { FRAME_MEMORY = 64 * 1024 * 1024 };

struct intake {
    struct ledger *ledger;
    struct arena arena; /* of one frame */
    struct score score;
    struct output output;
};

struct intake *intake_new(struct ledger *l)
{
    struct intake *in = calloc(1, sizeof *in);
    if (!in)
        return NULL;
    in->ledger = l;
    arena_init(&in->arena, FRAME_MEMORY);
    return in;
}

void intake_free(struct intake *in)
{
    if (!in)
        return;
    arena_free(&in->arena);
    free(in);
}

static bool is_the_stores(int rc)
{
    return rc == ERR_IO || rc == ERR_NOMEM || rc == ERR_BUSY || rc == ERR_CORRUPT || rc == ERR_BUG;
}

static int reject(struct intake *in, struct str frame, const struct err *why,
                  struct intake_result *out, struct err *e)
{
    struct output key = {0};
    struct score outer;
    out->why = *why;
    out->kind = INTAKE_GARBAGE;
    /* The key of a score frame stands in the output inside it; of feedback, at the top. */
    struct str inner = frame;
    if (score_decode(frame, &in->arena, &outer, NULL) == ERR_OK)
        inner = outer.output_json;
    if (output_decode_key(inner, &in->arena, &key, NULL) != ERR_OK || key.seq == 0)
        return ERR_OK;
    bool is_new;
    int rc = ledger_reject(in->ledger, &key, frame, why->msg, &is_new, e);
    if (rc == ERR_OK)
        out->kind = is_new ? INTAKE_REJECT : INTAKE_DUPLICATE;
    return rc;
}

static bool is_late(struct intake *in, const struct output *o)
{
    const struct tracker_source *s = tracker_find(in->ledger->tracker, o->engine, o->epoch, false);
    return s && o->seq <= s->mark;
}

static int take_score(struct intake *in, struct str frame, struct intake_result *out, struct err *e)
{
    struct err why = {0};
    struct put_result put;
    int rc = score_decode(frame, &in->arena, &in->score, &why);
    if (rc == ERR_OK)
        rc = output_decode(in->score.output_json, &in->arena, &in->output, &why);
    const struct score *sc = &in->score;
    const struct output *o = &in->output;
    if (rc == ERR_OK && (!str_eq(sc->engine, o->engine) || sc->epoch != o->epoch ||
                         sc->seq != o->seq || sc->choice != o->choice))
        rc = err_set(&why, ERR_INVALID, "the score names another output than the one inside it");
    if (rc == ERR_OK && o->seq == 0)
        rc = err_set(&why, ERR_INVALID, "seq 0: numbers begin at 1");
    if (rc != ERR_OK)
        return reject(in, frame, &why, out, e);
    bool was_late = is_late(in, o);
    rc = ledger_score(in->ledger, sc, o, &put, &why);
    if (rc != ERR_OK) {
        if (e)
            *e = why;
        return rc;
    }
    out->kind = put.is_new_score ? INTAKE_SCORE : INTAKE_DUPLICATE;
    out->is_late = put.is_new_output && was_late;
    out->score = sc;
    out->output = o;
    return ERR_OK;
}

static int take_feedback(struct intake *in, struct str frame, struct intake_result *out,
                         struct err *e)
{
    struct feedback f;
    struct err why = {0};
    bool is_new;
    int rc = feedback_decode(frame, &in->arena, &f, &why);
    if (rc != ERR_OK)
        return reject(in, frame, &why, out, e);
    rc = ledger_feedback(in->ledger, &f, &is_new, e);
    out->kind = is_new ? INTAKE_FEEDBACK : INTAKE_DUPLICATE;
    return rc;
}

/* "schema" is first by contract; looking at the beginning is enough to choose, the codec checks. */
static bool is_feedback(struct str frame)
{
    struct str head = str_slice(frame, 0, 128);
    return str_find(head, STR(FEEDBACK_SCHEMA), 0) >= 0;
}

int intake_frame(struct intake *in, struct str frame, struct intake_result *out, struct err *e)
{
    *out = (struct intake_result){.kind = INTAKE_GARBAGE};
    arena_reset(&in->arena);
    int rc = is_feedback(frame) ? take_feedback(in, frame, out, e) : take_score(in, frame, out, e);
    return rc == ERR_OK || is_the_stores(rc) ? rc : err_wrap(e, "intake");
}
