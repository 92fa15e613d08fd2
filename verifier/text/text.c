/* Unicode text services over utf8proc (case, NFKC) and common/utf8 (decoding). No state. */
#include "verifier/text/text.h"

#include "common/buf.h"
#include "common/utf8.h"

#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

static void next_wide_char(struct str *rest, uint32_t *cp)
{
    size_t n = utf8_decode(*rest, cp);
    if (n == 0) {
        *cp = 0xFFFD;
        n = utf8_invalid_run(*rest);
    }
    *rest = str_slice(*rest, n ? n : 1, rest->n);
}

static inline bool next_char(struct str *rest, uint32_t *cp)
{
    if (rest->n == 0)
        return false;
    *cp = (unsigned char)rest->p[0];
    if (*cp < 0x80)
        *rest = (struct str){rest->p + 1, rest->n - 1};
    else
        next_wide_char(rest, cp);
    return true;
}

bool text_next_char(struct str *rest, uint32_t *cp)
{
    return next_char(rest, cp);
}

static inline bool is_ascii_space(uint32_t cp)
{
    return cp == ' ' || (cp >= 0x09 && cp <= 0x0D) || (cp >= 0x1C && cp <= 0x1F);
}

bool text_is_space(uint32_t cp)
{
    static const uint32_t wide[] = {0x85, 0xA0, 0x1680, 0x2028, 0x2029, 0x202F, 0x205F, 0x3000};
    if (cp < 0x80)
        return is_ascii_space(cp);
    if (cp >= 0x2000 && cp <= 0x200A)
        return true;
    for (size_t i = 0; i < sizeof wide / sizeof wide[0]; i++)
        if (cp == wide[i])
            return true;
    return false;
}

/* Behind the characters from i on that are white space, or that are none; ASCII in a tight loop. */
static size_t skip_spaces(struct str s, size_t i)
{
    uint32_t cp;
    for (struct str at; i < s.n; i = s.n - at.n) {
        at = (struct str){s.p + i, s.n - i};
        if (next_char(&at, &cp) && !text_is_space(cp))
            return i;
    }
    return s.n;
}

static size_t skip_word(struct str s, size_t i)
{
    uint32_t cp;
    for (struct str at; i < s.n; i = s.n - at.n) {
        while (i < s.n && s.p[i] > ' ' && s.p[i] <= '~')
            i++;
        at = (struct str){s.p + i, s.n - i};
        if (next_char(&at, &cp) && text_is_space(cp))
            return i;
    }
    return s.n;
}

bool text_next_word(struct str *rest, struct str *word)
{
    size_t start = skip_spaces(*rest, 0), end = skip_word(*rest, start);
    *word = str_slice(*rest, start, end);
    *rest = str_slice(*rest, end, rest->n);
    return start < end;
}

static const uint64_t HASH_START = 0xcbf29ce484222325u;

/* FNV-1a over code points, mixed once more. */
static inline uint64_t hash_step(uint64_t h, uint32_t cp)
{
    uint32_t low =
        cp < 0x80 ? cp + 32 * (cp - 'A' < 26) : (uint32_t)utf8proc_tolower((utf8proc_int32_t)cp);
    h = (h ^ low) * 0x100000001b3u;
    return h ^ h >> 29;
}

uint64_t text_hash_lower(struct str word)
{
    uint64_t h = HASH_START;
    for (uint32_t cp; next_char(&word, &cp);)
        h = hash_step(h, cp);
    return h;
}

/* Without branches on where words end: those are not to be foreseen. */
size_t text_hash_words(struct str s, uint64_t *hash)
{
    uint64_t h = HASH_START;
    size_t n = 0;
    bool is_inside = false;
    for (uint32_t cp; next_char(&s, &cp);) {
        bool is_space = cp < 0x80 ? is_ascii_space(cp) : text_is_space(cp);
        hash[n] = h;
        n += is_space & is_inside;
        h = is_space ? HASH_START : hash_step(h, cp);
        is_inside = !is_space;
    }
    hash[n] = h;
    return n + is_inside;
}

size_t text_count_chars(struct str s)
{
    size_t n = 0;
    for (uint32_t cp; next_char(&s, &cp);)
        n++;
    return n;
}

size_t text_count_words(struct str s)
{
    size_t n = 0;
    bool is_inside = false;
    for (uint32_t cp; next_char(&s, &cp);) {
        bool is_space = cp < 0x80 ? is_ascii_space(cp) : text_is_space(cp);
        n += !is_space & !is_inside;
        is_inside = !is_space;
    }
    return n;
}

size_t text_count_lines(struct str s)
{
    size_t n = 0;
    for (struct str line; str_split(&s, '\n', &line);)
        n += text_trim(line).n > 0;
    return n;
}

static bool is_stop(uint32_t cp)
{
    return cp == '.' || cp == '!' || cp == '?' || cp == 0x3002 || cp == 0xFF01 || cp == 0xFF1F;
}

static bool is_closer(uint32_t cp)
{
    return cp == '"' || cp == '\'' || cp == ')' || cp == '*' || cp == 0x201D || cp == 0x2019;
}

size_t text_count_sentences(struct str s)
{
    size_t n = 0;
    bool after_stop = false, is_open = false; /* is_open: words since the last end */
    for (uint32_t cp; next_char(&s, &cp);) {
        bool ends = after_stop && is_open && text_is_space(cp);
        n += ends;
        if (ends)
            is_open = false;
        after_stop = is_stop(cp) || (after_stop && is_closer(cp));
        is_open = is_open || !(text_is_space(cp) || is_stop(cp) || is_closer(cp));
    }
    return n + is_open; /* a last one without its full stop counts too */
}

ptrdiff_t text_find_last(struct str s, struct str needle)
{
    ptrdiff_t last = -1;
    for (ptrdiff_t at = 0; (at = str_find(s, needle, (size_t)at)) >= 0; at++)
        last = at;
    return last;
}

struct str text_answered(struct str s)
{
    const struct str thought = STR("</think>"), open = STR("<answer>"), close = STR("</answer>");
    if (s.n == 0 || !memchr(s.p, '<', s.n)) /* nearly every text: no search for tags */
        return s;
    struct str trimmed = text_trim(s);
    if (trimmed.n && memchr("{[`", trimmed.p[0], 3))
        return s;
    ptrdiff_t at = text_find_last(s, thought);
    if (at >= 0)
        s = str_slice(s, (size_t)at + thought.n, s.n);
    at = text_find_last(s, open);
    if (at < 0)
        return s;
    s = str_slice(s, (size_t)at + open.n, s.n);
    at = str_find(s, close, 0);
    return at < 0 ? s : str_slice(s, 0, (size_t)at);
}

struct str text_trim(struct str s)
{
    uint32_t cp;
    for (struct str at = s; next_char(&at, &cp) && text_is_space(cp);)
        s = at;
    size_t keep = 0;
    for (struct str at = s; next_char(&at, &cp);)
        if (!text_is_space(cp))
            keep = s.n - at.n;
    return str_slice(s, 0, keep);
}

/* Marks a model likes to put around a short answer. */
static bool is_end_mark(uint32_t cp)
{
    static const uint32_t wide[] = {0x2018, 0x2019, 0x201C, 0x201D, 0xAB, 0xBB, 0x3002, 0xFF0E};
    if (cp < 0x80)
        return cp != 0 && strchr("\"'`*_.,:;!?()[]{}<>", (int)cp) != NULL;
    for (size_t i = 0; i < sizeof wide / sizeof wide[0]; i++)
        if (cp == wide[i])
            return true;
    return false;
}

static struct str plain_ends(struct str s)
{
    uint32_t cp;
    for (struct str at = s; next_char(&at, &cp) && (text_is_space(cp) || is_end_mark(cp));)
        s = at;
    size_t keep = 0;
    for (struct str at = s; next_char(&at, &cp);)
        if (!text_is_space(cp) && !is_end_mark(cp))
            keep = s.n - at.n;
    return str_slice(s, 0, keep);
}

static struct str one_space(struct str s, struct arena *a)
{
    char *to = arena_alloc(a, s.n + 1);
    if (!to)
        return (struct str){0};
    size_t n = 0;
    for (struct str word; text_next_word(&s, &word);) {
        if (n)
            to[n++] = ' ';
        memcpy(to + n, word.p, word.n);
        n += word.n;
    }
    return (struct str){to, n};
}

struct str text_valid(struct str s, struct arena *a)
{
    if (utf8_is_valid(s))
        return s;
    char *to = arena_alloc(a, s.n * 3 + 1); /* one bad byte becomes three of U+FFFD */
    if (!to)
        return (struct str){0};
    size_t n = 0;
    for (uint32_t cp; next_char(&s, &cp);)
        n += utf8_encode(cp, to + n);
    return (struct str){to, n};
}

static struct str map_unicode(struct str s, unsigned forms, struct arena *a)
{
    s = text_valid(s, a);
    if (!s.p || s.n == 0)
        return s;
    int options = UTF8PROC_STABLE | UTF8PROC_COMPOSE;
    options |= forms & TEXT_FOLD_CASE ? UTF8PROC_CASEFOLD : 0;
    options |= forms & TEXT_COMPATIBLE ? UTF8PROC_COMPAT : 0;
    utf8proc_uint8_t *mapped = NULL;
    utf8proc_ssize_t n = utf8proc_map((const utf8proc_uint8_t *)s.p, (utf8proc_ssize_t)s.n, &mapped,
                                      (utf8proc_option_t)options);
    struct str out = {0};
    if (n >= 0)
        out = arena_str(a, (struct str){(const char *)mapped, (size_t)n});
    free(mapped);
    return out;
}

struct str text_form(struct str s, unsigned forms, struct arena *a)
{
    if (!s.p)
        s = STR("");
    if (forms & (TEXT_FOLD_CASE | TEXT_COMPATIBLE))
        s = map_unicode(s, forms, a);
    if (s.p && forms & TEXT_PLAIN_ENDS)
        s = plain_ends(s);
    if (s.p && forms & TEXT_ONE_SPACE)
        s = one_space(s, a);
    return s;
}
