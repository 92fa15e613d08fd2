/* Every message codec on the same bytes: what is read must be written again, and read the same. */
#include "schemas/control.h"
#include "schemas/decision.h"
#include "schemas/feedback.h"
#include "schemas/score.h"

#include <stdint.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool holds)
{
    if (!holds)
        abort();
}

/* What is read straight from the text is what stands in the tree. */
static void require_same_as_tree(struct str text, const struct output *o)
{
    json_t *doc = NULL;
    require(json_parse(text, 0, &doc, NULL) == ERR_OK);
    const json_t *written = json_object_get(doc, "text"),
                 *messages = json_object_get(doc, "messages");
    struct str s = {json_string_value(written), json_string_length(written)};
    require(str_eq(s, o->text));
    require(json_number_value(json_object_get(doc, "seq")) == (double)o->seq);
    require(json_number_value(json_object_get(doc, "propensity")) == o->propensity);
    require(json_array_size(messages) == o->n_messages);
    require(json_array_size(json_object_get(doc, "token_ids")) == o->n_tokens);
    json_decref(doc);
}

static void try_output(struct str text, struct arena *a)
{
    struct output o, again;
    struct buf b;
    buf_init(&b, 16 * MiB);
    if (output_decode(text, a, &o, NULL) == ERR_OK) {
        require_same_as_tree(text, &o);
        require(output_encode(&o, &b, NULL) == ERR_OK);
        require(output_decode(buf_str(&b), a, &again, NULL) == ERR_OK);
        require(o.seq == again.seq && o.n_tokens == again.n_tokens && str_eq(o.text, again.text));
    }
    (void)!output_decode_key(text, a, &o, NULL);
    buf_free(&b);
}

static void try_score(struct str text, struct arena *a)
{
    struct score *s = arena_alloc(a, sizeof *s);
    struct buf b;
    buf_init(&b, 16 * MiB);
    if (s && score_decode(text, a, s, NULL) == ERR_OK)
        require(score_encode(s, &b, NULL) == ERR_OK);
    buf_free(&b);
}

static void try_control(struct str text, struct arena *a)
{
    struct control c;
    struct buf b;
    buf_init(&b, 16 * MiB);
    if (control_decode(text, a, &c, NULL) == ERR_OK)
        require(control_encode(&c, &b, NULL) == ERR_OK);
    buf_free(&b);
}

static void try_rest(struct str text, struct arena *a)
{
    struct feedback f;
    struct revision r;
    struct decision d;
    json_t *doc = NULL;
    (void)!feedback_decode(text, a, &f, NULL);
    (void)!feedback_decode_request(text, a, &f, NULL);
    if (json_parse(text, 0, &doc, NULL) != ERR_OK)
        return;
    struct json_at at = json_root(doc);
    (void)!revision_decode(&at, a, &r, NULL);
    (void)!decision_decode(&at, a, &d, NULL);
    json_decref(doc);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct str text = {(const char *)data, size};
    struct arena a;
    arena_init(&a, 64 * MiB);
    try_output(text, &a);
    try_score(text, &a);
    try_control(text, &a);
    try_rest(text, &a);
    arena_free(&a);
    return 0;
}
