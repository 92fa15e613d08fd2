/* Counts how verdicts move. Rows are paired by their key, never by position alone. Pure. */
#include "controller/cli/rescore.h"

#include "common/json.h"

#include <math.h>
#include <string.h>

static const char *const NAMES[] = {"pass", "value", "fail", "unscored"};

enum rescore_class rescore_class_of(double reward)
{
    if (isnan(reward))
        return RESCORE_UNSCORED;
    return reward >= 1 ? RESCORE_PASS : reward <= 0 ? RESCORE_FAIL : RESCORE_VALUE;
}

const char *rescore_class_name(enum rescore_class c)
{
    return NAMES[c];
}

static const char *copy(struct rescore_report *r, const char *text)
{
    struct str s = arena_str(r->arena, str_slice(str_from(text), 0, 400));
    return s.p != NULL ? s.p : "";
}

static void add_version(struct rescore_report *r, const char *version)
{
    for (size_t i = 0; i < r->n_version_before; i++)
        if (strcmp(r->version_before[i], version) == 0)
            return;
    if (r->n_version_before < RESCORE_MAX_VERSIONS)
        r->version_before[r->n_version_before++] = copy(r, version);
}

static struct rescore_revision *find_revision(struct rescore_report *r, uint64_t number)
{
    for (size_t i = 0; i < r->n_revision; i++)
        if (r->revision[i].number == number)
            return &r->revision[i];
    if (r->n_revision == RESCORE_MAX_REVISIONS)
        return NULL;
    r->revision[r->n_revision] = (struct rescore_revision){.number = number};
    return &r->revision[r->n_revision++];
}

static void add_side(struct rescore_side *s, double before, double after)
{
    s->n++;
    s->sum_old += before;
    s->sum_new += after;
}

/* The reason of the first check that gives less than 1, "id: reason". */
static const char *reason_of(struct rescore_report *r, const json_t *score)
{
    size_t i;
    json_t *c;

    json_array_foreach(json_object_get(score, "checks"), i, c)
    {
        const json_t *value = json_object_get(c, "value");
        const char *id = json_string_value(json_object_get(c, "id"));
        const char *reason = json_string_value(json_object_get(c, "reason"));
        if (json_is_number(value) && json_number_value(value) >= 1)
            continue;
        struct str s = arena_printf(r->arena, "%s%s%s", id ? id : "", reason ? ": " : "",
                                    reason ? reason : "");
        return s.p != NULL ? s.p : "";
    }
    return "";
}

/* Unscored before or after is the largest move there is. */
static void keep_moved(struct rescore_report *r, const struct rescore_before *before, double after,
                       const json_t *score)
{
    bool is_gap = isnan(before->reward) || isnan(after);
    double size = is_gap ? 2 : fabs(after - before->reward);
    size_t at = r->n_moved;

    while (at > 0 && r->moved[at - 1].size < size)
        at--;
    if (at == RESCORE_MAX_MOVED)
        return;
    if (r->n_moved < RESCORE_MAX_MOVED)
        r->n_moved++;
    memmove(&r->moved[at + 1], &r->moved[at], (r->n_moved - at - 1) * sizeof r->moved[0]);
    const char *text = json_string_value(json_object_get(json_object_get(score, "output"), "text"));
    r->moved[at] = (struct rescore_moved){.request_id = copy(r, before->request_id),
                                          .text = copy(r, text ? text : ""),
                                          .reason = reason_of(r, score),
                                          .before = before->reward,
                                          .after = after,
                                          .size = size};
}

static bool is_same_output(const struct rescore_before *b, const json_t *score)
{
    const char *id = json_string_value(json_object_get(score, "request_id"));
    const json_t *seq = json_object_get(score, "seq");

    return id != NULL && strcmp(id, b->request_id) == 0 && json_is_integer(seq) &&
           (uint64_t)json_integer_value(seq) == b->engine_seq;
}

int rescore_add(struct rescore_report *r, const struct rescore_before *before, const json_t *score,
                struct err *e)
{
    const json_t *reward = json_object_get(score, "reward");
    const char *version = json_string_value(json_object_get(score, "version"));
    double after = json_is_number(reward) ? json_number_value(reward) : NAN;

    r->n_rows++;
    if (!json_is_object(score)) {
        r->n_unusable++;
        return ERR_OK;
    }
    if (!is_same_output(before, score))
        return err_set(e, ERR_CORRUPT, "the verifier answered another output than %.60s",
                       before->request_id);
    if (r->version_after == NULL && version != NULL)
        r->version_after = copy(r, version);
    add_version(r, before->version);
    r->moves[rescore_class_of(before->reward)][rescore_class_of(after)]++;
    bool is_both = !isnan(before->reward) && !isnan(after);
    struct rescore_revision *revision = find_revision(r, before->revision);
    if (is_both)
        add_side(&r->both, before->reward, after);
    if (is_both && revision != NULL)
        add_side(&revision->both, before->reward, after);
    if (isnan(before->reward) != isnan(after) || (is_both && fabs(after - before->reward) > 1e-9)) {
        r->n_changed++;
        keep_moved(r, before, after, score);
    }
    return ERR_OK;
}
