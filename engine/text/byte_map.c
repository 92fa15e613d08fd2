/* GPT-2 gives every byte a visible code point: the printable ones of Latin-1 stand for themselves,
 * the 68 others take U+0100.. in rising order. The table is therefore four intervals. */
#include "engine/text/byte_map.h"

#include "common/utf8.h"

struct interval {
    uint32_t cp, n, byte;
};

static const struct interval INTERVALS[] = {
    {'!', '~' - '!' + 1, '!'}, {0xA1, 0xAC - 0xA1 + 1, 0xA1}, {0xAE, 0xFF - 0xAE + 1, 0xAE},
    {0x100, 33, 0x00}, /* control characters and the space */
    {0x121, 34, 0x7F}, /* DEL, C1 controls and the no-break space */
    {0x143, 1, 0xAD},  /* soft hyphen */
};

int byte_map_from_cp(uint32_t cp)
{
    for (size_t i = 0; i < sizeof INTERVALS / sizeof *INTERVALS; i++)
        if (cp >= INTERVALS[i].cp && cp - INTERVALS[i].cp < INTERVALS[i].n)
            return (int)(INTERVALS[i].byte + (cp - INTERVALS[i].cp));
    return -1;
}

ptrdiff_t byte_map_decode(struct str text, char *out)
{
    ptrdiff_t n = 0;
    while (text.n) {
        uint32_t cp;
        size_t bytes = utf8_decode(text, &cp);
        int byte = bytes ? byte_map_from_cp(cp) : -1;
        if (byte < 0)
            return -1;
        out[n++] = (char)byte;
        text = str_slice(text, bytes, text.n);
    }
    return n;
}
