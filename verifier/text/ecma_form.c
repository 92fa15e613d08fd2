/* Where the two dialects differ: white space is Unicode's, code points are written \uXXXX or
 * \u{X}, properties have long names, [] is nothing and [^] anything, and a letter behind a
 * backslash means something or is an error (ECMA-262 section 22.2.1). Stateless. */
#include "verifier/text/ecma_form.h"

#include <string.h>

/* WhiteSpace and LineTerminator of ECMA-262 section 12.2 and 12.3. */
#define SPACES                                                                                     \
    "\\x09-\\x0d\\x20\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}\\x{205f}"      \
    "\\x{3000}\\x{feff}"

static const struct {
    const char *name, *code;
} CATEGORIES[] = {
    {"Letter", "L"},
    {"Lowercase_Letter", "Ll"},
    {"Uppercase_Letter", "Lu"},
    {"Titlecase_Letter", "Lt"},
    {"Modifier_Letter", "Lm"},
    {"Other_Letter", "Lo"},
    {"Mark", "M"},
    {"Nonspacing_Mark", "Mn"},
    {"Spacing_Mark", "Mc"},
    {"Enclosing_Mark", "Me"},
    {"Number", "N"},
    {"Decimal_Number", "Nd"},
    {"digit", "Nd"},
    {"Letter_Number", "Nl"},
    {"Other_Number", "No"},
    {"Punctuation", "P"},
    {"punct", "P"},
    {"Symbol", "S"},
    {"Math_Symbol", "Sm"},
    {"Currency_Symbol", "Sc"},
    {"Separator", "Z"},
    {"Space_Separator", "Zs"},
    {"Other", "C"},
    {"Control", "Cc"},
};

struct form {
    struct str s;
    size_t at;
    bool in_class;
    struct buf *out;
};

static int byte_at(const struct form *f, size_t i)
{
    return f->at + i < f->s.n ? (unsigned char)f->s.p[f->at + i] : -1;
}

static int hex_value(int c)
{
    static const char digits[] = "0123456789abcdef";
    if (c >= 'A' && c <= 'F')
        c += 32;
    const char *hit = c > 0 ? memchr(digits, c, 16) : NULL;
    return hit ? (int)(hit - digits) : -1;
}

/* Four hexadecimal digits at index i; false when there are fewer. */
static bool read_hex4(const struct form *f, size_t i, uint32_t *out)
{
    *out = 0;
    for (size_t k = 0; k < 4; k++) {
        int v = hex_value(byte_at(f, i + k));
        if (v < 0)
            return false;
        *out = *out * 16 + (uint32_t)v;
    }
    return true;
}

/* \uXXXX, \uXXXX\uXXXX of a surrogate pair, \u{X}. */
static bool put_code_point(struct form *f)
{
    uint32_t high, low;
    if (byte_at(f, 2) == '{') {
        size_t n = 3;
        while (hex_value(byte_at(f, n)) >= 0)
            n++;
        if (byte_at(f, n) != '}' || n == 3)
            return false;
        buf_printf(f->out, "\\x{" STR_FMT "}", STR_ARG(str_slice(f->s, f->at + 3, f->at + n)));
        f->at += n + 1;
        return true;
    }
    if (!read_hex4(f, 2, &high))
        return false;
    f->at += 6;
    if (high >= 0xD800 && high < 0xDC00 && byte_at(f, 0) == '\\' && byte_at(f, 1) == 'u' &&
        read_hex4(f, 2, &low) && low >= 0xDC00 && low < 0xE000) {
        f->at += 6;
        high = 0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00);
    }
    buf_printf(f->out, "\\x{%x}", (unsigned)high);
    return true;
}

/* \p{Name} or \P{Name}; the name may come behind "General_Category=" or "gc=". */
static bool put_property(struct form *f)
{
    ptrdiff_t end = str_find(f->s, STR("}"), f->at);
    if (byte_at(f, 2) != '{' || end < 0)
        return false;
    struct str name = str_slice(f->s, f->at + 3, (size_t)end), before = name;
    if (str_find(name, STR("="), 0) >= 0) {
        str_split(&name, '=', &before);
        if (!str_eq_c(before, "General_Category") && !str_eq_c(before, "gc"))
            name = str_slice(f->s, f->at + 3, (size_t)end);
    }
    for (size_t i = 0; i < sizeof CATEGORIES / sizeof CATEGORIES[0]; i++)
        if (str_eq_c(name, CATEGORIES[i].name))
            name = str_from(CATEGORIES[i].code);
    buf_printf(f->out, "\\%c{" STR_FMT "}", byte_at(f, 1), STR_ARG(name));
    f->at = (size_t)end + 1;
    return true;
}

static bool put_escape(struct form *f)
{
    int c = byte_at(f, 1);
    if (c == 'u')
        return put_code_point(f);
    if (c == 'p' || c == 'P')
        return put_property(f);
    bool is_letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    if (c < 0 || (is_letter && !strchr("dDwWsSbBfnrtvcxk", c)))
        return false;
    if (c == 's')
        buf_put_c(f->out, f->in_class ? SPACES : "[" SPACES "]");
    else if (c == 'S' && !f->in_class)
        buf_put_c(f->out, "[^" SPACES "]");
    else if (c == 'v')
        buf_put_c(f->out, "\\x0b");
    else
        buf_put(f->out, f->s.p + f->at, 2);
    f->at += 2;
    return true;
}

/* [ outside a class. */
static void put_class_start(struct form *f)
{
    bool is_negated = byte_at(f, 1) == '^';
    if (byte_at(f, 1 + is_negated) == ']') {
        buf_put_c(f->out, is_negated ? "(?s:.)" : "(?!)");
        f->at += 2u + is_negated;
        return;
    }
    buf_put_c(f->out, is_negated ? "[^" : "[");
    f->at += 1u + is_negated;
    f->in_class = true;
}

static void put_plain(struct form *f, int c)
{
    if (c == '[' && !f->in_class) {
        put_class_start(f);
        return;
    }
    if (c == '[')
        buf_put_char(f->out, '\\');
    f->in_class = f->in_class && c != ']';
    buf_put_char(f->out, (char)c);
    f->at++;
}

int ecma_form(struct str pattern, struct buf *out, struct err *e)
{
    struct form f = {.s = pattern, .out = out};
    for (int c; (c = byte_at(&f, 0)) >= 0;) {
        size_t at = f.at;
        if (c != '\\')
            put_plain(&f, c);
        else if (!put_escape(&f))
            return err_set(e, ERR_INVALID,
                           "pattern: '" STR_FMT "' at byte %zu is no escape of ECMA-262",
                           STR_ARG(str_slice(pattern, at, at + 6)), at);
    }
    return buf_check(out, "pattern", e);
}
