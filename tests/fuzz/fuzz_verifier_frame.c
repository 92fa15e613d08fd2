/* A whole frame from the wire through decoding, every check, composition and encoding. */
#include "verifier/judge.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct check_config check(const char *id, const char *kind, const char *params)
{
    return (struct check_config){.id = str_from(id),
                                 .kind = str_from(kind),
                                 .params = str_from(params),
                                 .weight = 1,
                                 .timeout_ms = 1000};
}

static struct check_set *open_set(void)
{
    struct check_config config[] = {
        check("finish", "finish_reason", "{}"),
        check("length", "length", "{\"unit\":\"sentences\",\"max\":3}"),
        check("regex", "regex", "{\"pattern\":\"(a|aa)+$\"}"),
        check("contains", "contains", "{\"from_metadata\":\"any\",\"ignore_case\":true}"),
        check("json", "json", "{\"mode\":\"embedded\",\"compare\":true,\"partial\":true}"),
        check("exact", "exact", "{\"normalise\":true,\"scope\":\"last_line\"}"),
        check("number", "number", "{\"tolerance\":0.5}"),
        check("repetition", "repetition", "{}"),
        check("when", "number", "{\"when\":{\"kind\":[\"sum\",1]}}"),
    };
    struct route_config route = {.name = STR("default"),
                                 .checks = {config, sizeof config / sizeof config[0]}};
    struct check_set *set = NULL;
    if (check_set_open(&set, &route, NULL) != ERR_OK)
        abort();
    return set;
}

static void expect_decodable(const struct buf *out, struct arena *a)
{
    struct score s;
    struct err e = {0};
    if (score_decode(buf_str(out), a, &s, &e) != ERR_OK)
        abort();
    if (s.is_scored && !(s.reward >= 0 && s.reward <= 1))
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct check_set *set = open_set();
    struct judge j = {.verifier = STR("v"), .set = &set, .n_set = 1, .clock = &CLOCK_REAL};
    struct arena a;
    struct buf out;
    struct score score;
    struct err e = {0};
    arena_init(&a, 256 * MiB);
    buf_init(&out, 16 * MiB);
    enum judged judged =
        judge_frame(&j, (struct str){(const char *)data, size}, &a, &score, &out, &e);
    if (judged == JUDGED_SCORE || judged == JUDGED_MALFORMED)
        expect_decodable(&out, &a);
    buf_free(&out);
    arena_free(&a);
    check_set_close(set);
    return 0;
}
