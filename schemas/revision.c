/* Codec of a revision. Its hash is recomputed on reading: a changed row or message is noticed. */
#include "schemas/revision.h"

#include "schemas/codec.h"

#include <string.h>

static const struct codec_field FIELDS[] = {
    {"number", CODEC_U64, CODEC_REQUIRED, offsetof(struct revision, number), 0, 0},
    {"parent", CODEC_U64, 0, offsetof(struct revision, parent), 0, 0},
    {"route", CODEC_TEXT, CODEC_REQUIRED | CODEC_NOT_EMPTY, offsetof(struct revision, route), 0,
     CODEC_MAX_NAME},
    {"author", CODEC_TEXT, 0, offsetof(struct revision, author), 0, CODEC_MAX_NAME},
    {"reason", CODEC_TEXT, 0, offsetof(struct revision, reason), 0, 4096},
    {"created_us", CODEC_I64, 0, offsetof(struct revision, created.us), 0, 0},
    {"hash", CODEC_HEX, CODEC_REQUIRED | CODEC_NOT_EMPTY, offsetof(struct revision, hash), 0, 0},
};
enum { N_FIELD = sizeof FIELDS / sizeof *FIELDS };

int revision_decode(const struct json_at *at, struct arena *a, struct revision *out, struct err *e)
{
    *out = (struct revision){0};
    int rc = json_get_object(at, e);
    if (rc == ERR_OK)
        rc = codec_read(at, FIELDS, N_FIELD, a, out, e);
    struct json_at params = json_field(at, "params");
    if (rc == ERR_OK)
        rc = param_set_decode(&params, a, &out->params, e);
    if (rc != ERR_OK)
        return rc == ERR_NOT_FOUND ? ERR_INVALID : rc;
    char hash[65];
    param_set_hash(&out->params, hash);
    if (strcmp(hash, out->hash) != 0)
        return err_set(e, ERR_CORRUPT,
                       "revision %llu: its hash is %.12s..., its parameters give %.12s...",
                       (unsigned long long)out->number, out->hash, hash);
    return ERR_OK;
}

json_t *revision_encode(const struct revision *r)
{
    json_t *obj = json_object();
    int rc = codec_write(obj, FIELDS, N_FIELD, r, NULL);
    if (rc == ERR_OK)
        rc = codec_put(obj, "params", param_set_encode(&r->params), NULL);
    if (rc != ERR_OK) {
        json_decref(obj);
        return NULL;
    }
    return obj;
}
