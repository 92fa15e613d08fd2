/* Extraction of JSON from prose by CommonMark fences (spec 0.31, section 4.5) and a real grammar.
 * Slicing from the first to the last bracket breaks on citations such as "[1]"; hence the walk. */
#include "verifier/text/json_find.h"

#include "verifier/text/json_scan.h"
#include "verifier/text/text.h"

#include <string.h>

struct fence {
    struct str info, body;
    size_t end; /* index behind the closing fence */
};

static struct str line_at(struct str text, size_t at)
{
    const char *nl = at < text.n ? memchr(text.p + at, '\n', text.n - at) : NULL;
    size_t end = nl ? (size_t)(nl - text.p) : text.n;
    return str_slice(text, at, end);
}

/* Length of the run of fence characters after at most three spaces; 0 = no fence. */
static size_t fence_run(struct str line, char *mark, struct str *after)
{
    size_t indent = 0;
    while (indent < line.n && indent < 4 && line.p[indent] == ' ')
        indent++;
    if (indent == 4 || indent == line.n)
        return 0;
    *mark = line.p[indent];
    size_t i = indent;
    while (i < line.n && line.p[i] == *mark)
        i++;
    *after = str_trim(str_slice(line, i, line.n));
    return (*mark == '`' || *mark == '~') && i - indent >= 3 ? i - indent : 0;
}

/* The next fenced block at or after `from` (a line start). An unclosed one runs to the end. */
static bool next_fence(struct str text, size_t from, struct fence *f)
{
    char mark, other;
    struct str after;
    size_t at = from;
    for (; at < text.n; at += line_at(text, at).n + 1) {
        size_t run = fence_run(line_at(text, at), &mark, &after);
        if (run == 0 || (mark == '`' && after.n && memchr(after.p, '`', after.n)))
            continue;
        f->info = after;
        size_t start = at + line_at(text, at).n + 1;
        for (size_t i = start; i < text.n; i += line_at(text, i).n + 1) {
            size_t close = fence_run(line_at(text, i), &other, &after);
            if (close < run || other != mark || after.n)
                continue;
            f->body = str_slice(text, start, i);
            f->end = i + line_at(text, i).n + 1;
            return true;
        }
        f->body = str_slice(text, start, text.n);
        f->end = text.n;
        return true;
    }
    return false;
}

static bool says_json(const struct fence *f)
{
    struct str i = f->info;
    return i.n >= 4 && strncasecmp(i.p, "json", 4) == 0 &&
           (i.n == 4 || i.p[4] == ' ' || i.p[4] == '\t' || i.p[4] == '{');
}

static bool looks_like_json(const struct fence *f)
{
    struct str body = str_trim(f->body);
    return f->info.n == 0 && body.n && (body.p[0] == '{' || body.p[0] == '[');
}

static bool is_wanted(struct str value, enum json_want want)
{
    return want == JSON_WANT_ANY ||
           (value.n && value.p[0] == (want == JSON_WANT_OBJECT ? '{' : '['));
}

static bool accept(struct str body, enum json_want want, struct str *value, const char **why)
{
    *value = str_trim(body);
    *why = "invalid_json";
    return is_wanted(*value, want) && json_scan_text(*value) == JSON_SCAN_OK;
}

/* Prose between fences: complete values in turn. *stop when the search must end. */
static bool find_in_prose(struct str text, enum json_want want, struct str *value, const char **why,
                          bool *stop)
{
    for (size_t i = 0; i < text.n;) {
        if (text.p[i] != '{' && text.p[i] != '[') {
            i++;
            continue;
        }
        *why = "invalid_json";
        size_t end, behind = json_scan_brackets(text, i);
        if (json_scan_value(text, i, &end) == JSON_SCAN_OK) {
            *value = str_slice(text, i, end);
            if (is_wanted(*value, want))
                return true;
            behind = end;
        }
        *stop = behind > text.n;
        if (*stop)
            return false;
        i = behind;
    }
    return false;
}

bool json_find(struct str text, enum json_want want, struct str *value, const char **why)
{
    text = text_answered(text);
    if (accept(text, want, value, why))
        return true;
    *why = "no_json";
    struct fence f;
    for (size_t at = 0; next_fence(text, at, &f); at = f.end)
        if (says_json(&f))
            return accept(f.body, want, value, why);
    for (size_t at = 0; next_fence(text, at, &f); at = f.end)
        if (looks_like_json(&f))
            return accept(f.body, want, value, why);
    bool stop = false;
    size_t at = 0;
    while (!stop && next_fence(text, at, &f)) {
        size_t start = (size_t)(f.info.p - text.p);
        if (find_in_prose(str_slice(text, at, start), want, value, why, &stop))
            return true;
        at = f.end;
    }
    return !stop && find_in_prose(str_slice(text, at, text.n), want, value, why, &stop);
}
