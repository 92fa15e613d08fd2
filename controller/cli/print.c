/* Tables and numbers for people. Output of the model is hostile to a terminal: control
 * characters never reach it from here. */
#include "controller/cli/print.h"

#include <math.h>
#include <string.h>

int table_init(struct table *t, struct arena *a, const char *const *titles, size_t n, struct err *e)
{
    *t = (struct table){.arena = a, .n_column = n};
    for (size_t i = 0; i < n; i++)
        t->title[i] = titles[i];
    t->cell = arena_array(a, TABLE_MAX_ROWS * n, sizeof *t->cell);
    t->tone = arena_array(a, TABLE_MAX_ROWS * n, sizeof *t->tone);
    return t->cell != NULL && t->tone != NULL ? ERR_OK
                                              : err_set(e, ERR_NOMEM, "a table of %zu columns", n);
}

void table_row(struct table *t, const char *const *cells)
{
    if (t->n_row == TABLE_MAX_ROWS)
        return;
    for (size_t i = 0; i < t->n_column; i++) {
        t->cell[t->n_row * t->n_column + i] = cells[i] != NULL ? cells[i] : "";
        t->tone[t->n_row * t->n_column + i] = TONE_PLAIN;
    }
    t->n_row++;
}

void table_tone(struct table *t, size_t column, enum tone tone)
{
    if (t->n_row > 0)
        t->tone[(t->n_row - 1) * t->n_column + column] = tone;
}

static size_t width_of(const char *text)
{
    size_t n = 0;

    for (; *text != '\0'; text++)
        n += ((unsigned char)*text & 0xC0) != 0x80;
    return n;
}

struct cell {
    const char *text;
    size_t width;
    enum tone tone;
    bool is_right, is_last;
};

static void put_cell(FILE *to, const struct cell *c)
{
    int pad = (int)(c->width - width_of(c->text));

    fprintf(to, "%*s%s%s%s%*s%s", c->is_right ? pad : 0, "", tone_begin(to, c->tone), c->text,
            tone_end(to, c->tone), c->is_right || c->is_last ? 0 : pad, "",
            c->is_last ? "\n" : "  ");
}

void table_print(const struct table *t, FILE *to)
{
    size_t width[TABLE_MAX_COLUMNS];

    for (size_t i = 0; i < t->n_column; i++) {
        width[i] = width_of(t->title[i]) - (t->title[i][0] == '>');
        for (size_t r = 0; r < t->n_row; r++) {
            size_t w = width_of(t->cell[r * t->n_column + i]);
            width[i] = w > width[i] ? w : width[i];
        }
    }
    for (size_t at = 0; at < (t->n_row + 1) * t->n_column; at++) {
        size_t i = at % t->n_column;
        bool is_title = at < t->n_column, is_right = t->title[i][0] == '>';
        put_cell(to, &(struct cell){.text = is_title ? t->title[i] + is_right
                                                     : t->cell[at - t->n_column],
                                    .width = width[i],
                                    .tone = is_title ? TONE_TITLE : t->tone[at - t->n_column],
                                    .is_right = is_right,
                                    .is_last = i + 1 == t->n_column});
    }
}

const char *json_text_of(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));

    return text != NULL ? text : "";
}

double json_real_of(const json_t *object, const char *key)
{
    const json_t *v = json_object_get(object, key);

    return json_is_number(v) ? json_number_value(v) : NAN;
}

int64_t json_int_of(const json_t *object, const char *key)
{
    const json_t *v = json_object_get(object, key);

    if (json_is_integer(v))
        return json_integer_value(v);
    return json_is_real(v) ? (int64_t)json_real_value(v) : 0;
}

const char *json_number_of(struct arena *a, const json_t *object, const char *key, int decimals)
{
    double v = json_real_of(object, key);
    struct str text = isnan(v) ? STR("-") : arena_printf(a, "%.*f", decimals, v);

    return text.p != NULL ? text.p : "-";
}

const char *one_line(struct arena *a, const char *text, size_t max_chars)
{
    size_t n = strlen(text), chars = 0, end = 0;
    char *out = arena_alloc(a, n + 4);

    if (out == NULL)
        return "";
    for (; end < n; end++) {
        unsigned char c = (unsigned char)text[end];
        chars += (c & 0xC0) != 0x80;
        if (chars > max_chars)
            break;
        out[end] = c < 0x20 || c == 0x7F ? ' ' : (char)c;
    }
    memcpy(out + end, end < n ? "..." : "", end < n ? 4 : 1);
    return out;
}

const char *params_line(struct arena *a, const json_t *params)
{
    struct str line = STR("");
    const char *key;
    json_t *value;

    json_object_foreach((json_t *)params, key, value)
    {
        if (json_is_number(value)) {
            line = arena_printf(a, STR_FMT "%s%s=%g", STR_ARG(line), line.n ? " " : "", key,
                                json_number_value(value));
            continue;
        }
        char *text = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT);
        line = arena_printf(a, STR_FMT "%s%s=%s", STR_ARG(line), line.n ? " " : "", key,
                            text != NULL ? one_line(a, text, 60) : "");
        free(text);
    }
    return line.p != NULL ? line.p : "";
}

const char *time_of(struct arena *a, int64_t wall_us)
{
    char text[32];

    wall_format((struct wall){wall_us}, text);
    text[10] = ' ';
    struct str s = arena_str(a, (struct str){text, 19});
    return s.p != NULL ? s.p : "";
}

const char *age_of(struct arena *a, int64_t ms)
{
    static const struct {
        int64_t below_ms, unit_ms;
        const char *unit;
    } step[] = {
        {2000, 1, "ms"}, {120000, 1000, "s"}, {7200000, 60000, "min"}, {INT64_MAX, 3600000, "h"}};
    size_t i = 0;

    while (ms >= step[i].below_ms && i < 3)
        i++;
    struct str s = arena_printf(a, "%lld %s ago", (long long)(ms / step[i].unit_ms), step[i].unit);
    return s.p != NULL ? s.p : "";
}
