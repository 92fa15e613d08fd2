/* UTF-8 decoding by the well-formed table of Unicode 15, section 3.9, table 3-7. */
#include "common/utf8.h"

#include <string.h>

/* Bytes a lead byte announces, 0 for one that cannot lead. */
static size_t lead_length(unsigned char c)
{
    if (c < 0x80)
        return 1;
    if (c >= 0xC2 && c <= 0xDF)
        return 2;
    if (c >= 0xE0 && c <= 0xEF)
        return 3;
    return c >= 0xF0 && c <= 0xF4 ? 4 : 0;
}

/* The second byte is narrower for four leads: this is what forbids overlong and surrogates. */
static bool second_fits(unsigned char lead, unsigned char c)
{
    unsigned char low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
    unsigned char high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
    return c >= low && c <= high;
}

/* How many of the announced bytes are present and fit; *need = announced. */
static size_t well_formed_prefix(struct str s, size_t *need)
{
    const unsigned char *p = (const unsigned char *)s.p;
    *need = s.n ? lead_length(p[0]) : 0;
    if (*need == 0)
        return 0;
    size_t have = 1;
    while (have < *need && have < s.n) {
        bool fits = have == 1 ? second_fits(p[0], p[1]) : (p[have] & 0xC0) == 0x80;
        if (!fits)
            break;
        have++;
    }
    return have;
}

size_t utf8_decode(struct str s, uint32_t *cp)
{
    size_t need;
    if (well_formed_prefix(s, &need) != need || need == 0)
        return 0;
    const unsigned char *p = (const unsigned char *)s.p;
    static const unsigned char LEAD_BITS[5] = {0, 0x7F, 0x1F, 0x0F, 0x07};
    uint32_t value = p[0] & LEAD_BITS[need];
    for (size_t i = 1; i < need; i++)
        value = value << 6 | (p[i] & 0x3Fu);
    *cp = value;
    return need;
}

size_t utf8_encode(uint32_t cp, char out[4])
{
    static const unsigned char LEAD_MARK[5] = {0, 0x00, 0xC0, 0xE0, 0xF0};
    if (cp > 0x10FFFF || (cp >= 0xD800 && cp <= 0xDFFF))
        return 0;
    size_t n = cp < 0x80 ? 1 : cp < 0x800 ? 2 : cp < 0x10000 ? 3 : 4;
    for (size_t i = n - 1; i > 0; i--) {
        out[i] = (char)(0x80 | (cp & 0x3F));
        cp >>= 6;
    }
    out[0] = (char)(LEAD_MARK[n] | cp);
    return n;
}

/* Eight bytes at a time while none has its high bit set. */
static size_t ascii_run(struct str s)
{
    size_t i = 0;
    for (uint64_t eight; i + sizeof eight <= s.n; i += sizeof eight) {
        memcpy(&eight, s.p + i, sizeof eight);
        if (eight & 0x8080808080808080u)
            break;
    }
    while (i < s.n && (unsigned char)s.p[i] < 0x80)
        i++;
    return i;
}

static bool is_plain(unsigned char c)
{
    return c >= 0x20 && c < 0x80 && c != '"' && c != '\\';
}

/* A high bit where a byte of x is 0, perhaps above such a byte, else nowhere: see "Determine if a
 * word has a zero byte" in S. E. Anderson, Bit Twiddling Hacks. */
static uint64_t zero_bytes(uint64_t x)
{
    return (x - 0x0101010101010101u) & ~x & 0x8080808080808080u;
}

static bool are_plain(uint64_t eight)
{
    uint64_t controls = zero_bytes(eight & 0xe0e0e0e0e0e0e0e0u);
    uint64_t quotes = zero_bytes(eight ^ 0x2222222222222222u);
    uint64_t backslashes = zero_bytes(eight ^ 0x5c5c5c5c5c5c5c5cu);
    return ((eight & 0x8080808080808080u) | controls | quotes | backslashes) == 0;
}

size_t utf8_plain_run(struct str s)
{
    size_t i = 0;
    for (uint64_t eight; i + sizeof eight <= s.n; i += sizeof eight) {
        memcpy(&eight, s.p + i, sizeof eight);
        if (!are_plain(eight))
            break;
    }
    while (i < s.n && is_plain((unsigned char)s.p[i]))
        i++;
    return i;
}

bool utf8_is_valid(struct str s)
{
    uint32_t cp;
    while ((s = str_slice(s, ascii_run(s), s.n)).n) {
        size_t n = utf8_decode(s, &cp);
        if (n == 0)
            return false;
        s = str_slice(s, n, s.n);
    }
    return true;
}

size_t utf8_partial_tail(struct str s)
{
    size_t most = s.n < 3 ? s.n : 3;
    for (size_t back = 1; back <= most; back++) {
        struct str tail = str_slice(s, s.n - back, s.n);
        size_t need, have = well_formed_prefix(tail, &need);
        if (need > back && have == back)
            return back;
    }
    return 0;
}

size_t utf8_invalid_run(struct str s)
{
    size_t need, have = well_formed_prefix(s, &need);
    return have ? have : (s.n ? 1 : 0);
}
