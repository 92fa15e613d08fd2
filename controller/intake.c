/* Decoding and sorting of frames.
 *
 * A frame is a score with its output inside, or feedback that a verifier passed on. Everything in
 * it is hostile until the codecs accepted it. What has a readable key but no usable rest is stored
 * as a reject: else its engine would send it again for ever. Decoding touches nothing shared. */
#include "controller/intake.h"

#include <stdlib.h>
#include <string.h>

enum { FRAME_MEMORY = 64 * 1024 * 1024 };

void intake_item_init(struct intake_item *x)
{
    *x = (struct intake_item){.kind = ITEM_REFUSED};
    arena_init(&x->arena, FRAME_MEMORY);
}

void intake_item_fini(struct intake_item *x)
{
    arena_free(&x->arena);
}

/* The key of a score frame stands in the output inside it; of feedback, at the top. */
static void refuse(struct str frame, struct intake_item *x)
{
    struct str inner = frame;
    x->kind = ITEM_REFUSED;
    x->frame = arena_str(&x->arena, frame);
    if (score_decode(frame, &x->arena, &x->score, NULL) == ERR_OK)
        inner = x->score.output_json;
    if (output_decode_key(inner, &x->arena, &x->output, NULL) != ERR_OK || !x->frame.p)
        x->output = (struct output){0};
}

static int decode_score(struct packer *p, struct str frame, enum packing when,
                        struct intake_item *x, struct err *e)
{
    struct score *sc = &x->score;
    struct output *o = &x->output;
    int rc = score_decode(frame, &x->arena, sc, e);
    if (rc == ERR_OK)
        rc = output_decode_columns(sc->output_json, &x->arena, o, e);
    if (rc != ERR_OK)
        return rc;
    if (!str_eq(sc->engine, o->engine) || sc->epoch != o->epoch || sc->seq != o->seq ||
        sc->choice != o->choice)
        return err_set(e, ERR_INVALID, "the score names another output than the one inside it");
    if (o->seq == 0)
        return err_set(e, ERR_INVALID, "seq 0: numbers begin at 1");
    x->kind = ITEM_SCORE;
    return score_seal(sc, o, p, when, &x->arena, &x->sealed, e);
}

static int decode_feedback(struct str frame, struct intake_item *x, struct err *e)
{
    x->kind = ITEM_FEEDBACK;
    return feedback_decode(frame, &x->arena, &x->feedback, e);
}

/* "schema" is first by contract; looking at the beginning is enough to choose, the codec checks. */
static bool is_feedback(struct str frame)
{
    struct str head = str_slice(frame, 0, 128);
    return str_find(head, STR(FEEDBACK_SCHEMA), 0) >= 0;
}

void intake_decode(struct packer *p, struct str frame, enum packing when, struct intake_item *out)
{
    arena_reset(&out->arena);
    out->why = (struct err){0};
    int rc = is_feedback(frame) ? decode_feedback(frame, out, &out->why)
                                : decode_score(p, frame, when, out, &out->why);
    if (rc != ERR_OK)
        refuse(frame, out);
}

static int apply_refused(struct ledger *l, const struct intake_item *x, struct intake_result *out,
                         struct err *e)
{
    bool is_new;
    out->why = x->why;
    if (x->output.seq == 0)
        return ERR_OK;
    int rc = ledger_reject(l, &x->output, x->frame, x->why.msg, &is_new, e);
    if (rc == ERR_OK)
        out->kind = is_new ? INTAKE_REJECT : INTAKE_DUPLICATE;
    return rc;
}

static bool is_late(const struct ledger *l, const struct output *o)
{
    const struct tracker_source *s = tracker_find(l->tracker, o->engine, o->epoch, false);
    return s && o->seq <= s->mark;
}

static int apply_score(struct ledger *l, const struct intake_item *x, struct intake_result *out,
                       struct err *e)
{
    struct put_result put;
    bool was_late = is_late(l, &x->output);
    int rc = ledger_score(l, &x->sealed, &put, e);
    if (rc != ERR_OK)
        return rc;
    out->kind = put.is_new_score ? INTAKE_SCORE : INTAKE_DUPLICATE;
    out->is_late = put.is_new_output && was_late;
    out->score = &x->score;
    out->output = &x->output;
    return ERR_OK;
}

static int apply_feedback(struct ledger *l, const struct intake_item *x, struct intake_result *out,
                          struct err *e)
{
    bool is_new;
    int rc = ledger_feedback(l, &x->feedback, &is_new, e);
    out->kind = is_new ? INTAKE_FEEDBACK : INTAKE_DUPLICATE;
    return rc;
}

int intake_apply(struct ledger *l, const struct intake_item *x, struct intake_result *out,
                 struct err *e)
{
    typedef int apply_fn(struct ledger *, const struct intake_item *, struct intake_result *,
                         struct err *);
    static apply_fn *const APPLY[] = {[ITEM_SCORE] = apply_score,
                                      [ITEM_FEEDBACK] = apply_feedback,
                                      [ITEM_REFUSED] = apply_refused};
    *out = (struct intake_result){.kind = INTAKE_GARBAGE};
    return APPLY[x->kind](l, x, out, e);
}

struct intake {
    struct ledger *ledger;
    struct packer *packer;
    struct intake_item item;
};

struct intake *intake_new(struct ledger *l)
{
    struct intake *in = calloc(1, sizeof *in);
    if (!in)
        return NULL;
    in->ledger = l;
    intake_item_init(&in->item);
    in->packer = packer_new();
    if (!in->packer) {
        intake_free(in);
        return NULL;
    }
    return in;
}

void intake_free(struct intake *in)
{
    if (!in)
        return;
    packer_free(in->packer);
    intake_item_fini(&in->item);
    free(in);
}

int intake_frame(struct intake *in, struct str frame, struct intake_result *out, struct err *e)
{
    intake_decode(in->packer, frame, PACK_WHEN_NEW, &in->item);
    return intake_apply(in->ledger, &in->item, out, e);
}
