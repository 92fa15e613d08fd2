/* The values of `format` that can be asserted (validation draft, section 7.3): one pattern each
 * from the grammar of its RFC, and what a grammar does not say. idn-hostname is not here: it needs
 * the tables of RFC 5892. */
#include "verifier/schema/node.h"

#include <arpa/inet.h>
#include <string.h>
#include <strings.h>

struct format {
    const char *name, *pattern;
    bool (*also)(struct str text);
    bool (*is_open)(struct str text, bool holds); /* NULL: never */
};

/* RFC 3339. */
#define DATE "[0-9]{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12][0-9]|3[01])"
#define TIME                                                                                       \
    "(?:[01][0-9]|2[0-3]):[0-5][0-9]:(?:[0-5][0-9]|60)(?:\\.[0-9]+)?"                              \
    "(?:[Zz]|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])"
#define D_TIME "T(?:[0-9]+H(?:[0-9]+M(?:[0-9]+S)?)?|[0-9]+M(?:[0-9]+S)?|[0-9]+S)"
#define D_DATE "(?:[0-9]+D|[0-9]+M(?:[0-9]+D)?|[0-9]+Y(?:[0-9]+M(?:[0-9]+D)?)?)"

/* RFC 1123, 5321, 6531. */
#define LABEL    "(?!..--|[Xx][Nn]--$)[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
#define A_LABEL  "[Xx][Nn]--[A-Za-z0-9](?:[A-Za-z0-9-]{0,57}[A-Za-z0-9])?"
#define HOST     "(?:" A_LABEL "|" LABEL ")(?:\\.(?:" A_LABEL "|" LABEL "))*"
#define OCTET    "(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
#define IPV4     OCTET "(?:\\." OCTET "){3}"
#define ATOM     "-A-Za-z0-9!#$%&'*+/=?^_`{|}~"
#define LITERAL  "\\[(?:" IPV4 "|IPv6:[0-9A-Fa-f:.]+)\\]"
#define WIDE     "\\x{80}-\\x{10ffff}"
#define LOCAL(x) "(?:[" ATOM x "]+(?:\\.[" ATOM x "]+)*|\"(?:[^\"\\\\\\x00-\\x1f]|\\\\[ -~])*\")"
#define IDN      "[A-Za-z0-9" WIDE "](?:[A-Za-z0-9" WIDE "-]*[A-Za-z0-9" WIDE "])?"

/* RFC 3986 and 3987: x adds the characters of an IRI. */
#define UCS         "\\x{a0}-\\x{d7ff}\\x{f900}-\\x{fdcf}\\x{fdf0}-\\x{ffef}\\x{10000}-\\x{efffd}"
#define PRIVATE     "\\x{e000}-\\x{f8ff}\\x{f0000}-\\x{ffffd}\\x{100000}-\\x{10fffd}"
#define HEX         "%[0-9A-Fa-f]{2}"
#define PCHAR(x)    "(?:[A-Za-z0-9._~!$&'()*+,;=:@" x "-]|" HEX ")"
#define NO_COLON(x) "(?:[A-Za-z0-9._~!$&'()*+,;=@" x "-]|" HEX ")"
#define NAME(x)     "(?:[A-Za-z0-9._~!$&'()*+,;=" x "-]|" HEX ")*"
#define USER(x)     "(?:(?:[A-Za-z0-9._~!$&'()*+,;=:" x "-]|" HEX ")*@)?"
#define AUTHORITY(x)                                                                               \
    "//" USER(x) "(?:\\[(?:[0-9A-Fa-f:.]+|[Vv][0-9A-Fa-f]+\\.[A-Za-z0-9._~!$&'()*+,;=:-]+)\\]"     \
                 "|" NAME(x) ")(?::[0-9]*)?"
#define SEGMENTS(x)      "(?:/" PCHAR(x) "*)*"
#define ABSOLUTE(x)      "/(?:" PCHAR(x) "+" SEGMENTS(x) ")?"
#define TAIL(x, private) "(?:\\?(?:" PCHAR(x) "|[/?" private "])*)?(?:#(?:" PCHAR(x) "|[/?])*)?"
#define FULL(x, private)                                                                           \
    "[A-Za-z][A-Za-z0-9+.-]*:(?:" AUTHORITY(x)                                                     \
        SEGMENTS(x) "|" ABSOLUTE(x) "|" PCHAR(x) "+" SEGMENTS(x) "|)" TAIL(x, private)
#define RELATIVE(x, private)                                                                       \
    "(?:" AUTHORITY(x)                                                                             \
        SEGMENTS(x) "|" ABSOLUTE(x) "|" NO_COLON(x) "+" SEGMENTS(x) "|)" TAIL(x, private)

/* RFC 6570, 6901. */
#define VARNAME "(?:[A-Za-z0-9_]|" HEX ")(?:\\.?(?:[A-Za-z0-9_]|" HEX "))*"
#define VARSPEC VARNAME "(?::[1-9][0-9]{0,3}|\\*)?"
#define POINTER "(?:/(?:[^/~]|~[01])*)*"

static int two(const char *p)
{
    return (p[0] - '0') * 10 + (p[1] - '0');
}

static bool is_day(struct str s)
{
    static const int days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    int year = two(s.p) * 100 + two(s.p + 2), month = two(s.p + 5), day = two(s.p + 8);
    bool is_leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
    return day <= days[month - 1] + (month == 2 && is_leap);
}

/* A leap second only comes at 23:59:60 UTC. */
static bool is_second(struct str s)
{
    size_t sign = s.n - 6;
    bool has_offset = s.p[s.n - 1] != 'Z' && s.p[s.n - 1] != 'z';
    int minutes = two(s.p) * 60 + two(s.p + 3);
    if (two(s.p + 6) < 60)
        return true;
    int offset = has_offset ? two(s.p + sign + 1) * 60 + two(s.p + sign + 4) : 0;
    minutes += has_offset && s.p[sign] == '-' ? offset : -offset;
    return (minutes + 2 * 1440) % 1440 == 1439;
}

static bool is_moment(struct str s)
{
    return is_day(s) && is_second(str_slice(s, 11, s.n));
}

static bool is_ipv6(struct str s)
{
    char text[64];
    struct in6_addr address;
    if (s.n >= sizeof text)
        return false;
    memcpy(text, s.p, s.n);
    text[s.n] = '\0';
    return inet_pton(AF_INET6, text, &address) == 1;
}

/* The grammar leaves the inside of the brackets around an address open. */
static bool is_uri(struct str s)
{
    ptrdiff_t from = str_find(s, STR("["), 0), to = str_find(s, STR("]"), 0);
    struct str inside = from < 0 ? STR("v") : str_slice(s, (size_t)from + 1, (size_t)to);
    return (inside.p[0] | 32) == 'v' || is_ipv6(inside);
}

static bool is_host(struct str s)
{
    return s.n <= 253;
}

static bool is_pattern(struct str s)
{
    struct pattern *p;
    for (ptrdiff_t at = 0; (at = str_find(s, STR("(?"), (size_t)at)) >= 0; at += 2)
        if ((size_t)at + 2 == s.n || !strchr(":=!<", s.p[at + 2]))
            return false; /* flags, comments, names of other dialects */
    bool fits = pattern_open(&p, s.n ? s : STR("(?:)"), PATTERN_ECMA, NULL) == ERR_OK;
    pattern_close(p);
    return fits;
}

/* Is the verdict not ours to give? Labels in Punycode would have to be decoded and checked by the
 * rules of RFC 5892 (CONTEXTO too, which libidn2 leaves out); PCRE2 has no look-behind without a
 * bound. Such values are unscored, neither right nor wrong. */

static bool has_punycode(struct str s, bool holds)
{
    for (size_t i = 0; holds && i + 4 <= s.n; i++)
        if ((i == 0 || s.p[i - 1] == '.') && strncasecmp(s.p + i, "xn--", 4) == 0)
            return true;
    return false;
}

static bool has_refused_look_behind(struct str s, bool holds)
{
    return !holds && (str_find(s, STR("(?<="), 0) >= 0 || str_find(s, STR("(?<!"), 0) >= 0);
}

static const struct format FORMATS[] = {
    {"date-time", "^" DATE "[Tt]" TIME "\\z", is_moment, NULL},
    {"date", "^" DATE "\\z", is_day, NULL},
    {"time", "^" TIME "\\z", is_second, NULL},
    {"duration", "^P(?:" D_DATE "(?:" D_TIME ")?|" D_TIME "|[0-9]+W)\\z", NULL, NULL},
    {"email", "^" LOCAL("") "@(?:" HOST "|" LITERAL ")\\z", NULL, NULL},
    {"idn-email", "^" LOCAL(WIDE) "@(?:" IDN "(?:\\." IDN ")*|" LITERAL ")\\z", NULL, NULL},
    {"hostname", "^" HOST "\\z", is_host, has_punycode},
    {"ipv4", "^" IPV4 "\\z", NULL, NULL},
    {"ipv6", "^[0-9A-Fa-f:.]+\\z", is_ipv6, NULL},
    {"uri", "^" FULL("", "") "\\z", is_uri, NULL},
    {"uri-reference", "^(?:" FULL("", "") "|" RELATIVE("", "") ")\\z", is_uri, NULL},
    {"iri", "^" FULL(UCS, PRIVATE) "\\z", is_uri, NULL},
    {"iri-reference", "^(?:" FULL(UCS, PRIVATE) "|" RELATIVE(UCS, PRIVATE) ")\\z", is_uri, NULL},
    {"uuid", "^[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}\\z", NULL, NULL},
    {"uri-template",
     "^(?:[!#$&-;=?-\\[\\]_a-z~" UCS "]|" HEX "|\\{[+#./;?&=,!@|]?" VARSPEC "(?:," VARSPEC
     ")*\\})*\\z",
     NULL, NULL},
    {"json-pointer", "^" POINTER "\\z", NULL, NULL},
    {"relative-json-pointer", "^(?:0|[1-9][0-9]*)(?:#|" POINTER ")\\z", NULL, NULL},
    {"regex", "^", is_pattern, has_refused_look_behind},
};
enum { FORMATS_N = sizeof FORMATS / sizeof FORMATS[0] };

const struct format *format_find(struct str name)
{
    for (int i = 0; i < FORMATS_N; i++)
        if (str_eq_c(name, FORMATS[i].name))
            return &FORMATS[i];
    return NULL;
}

void format_names(struct buf *out)
{
    for (int i = 0; i < FORMATS_N; i++)
        buf_printf(out, "%s%s", i ? ", " : "", FORMATS[i].name);
}

const char *format_pattern(const struct format *f)
{
    return f->pattern;
}

bool format_holds(const struct rule *r, struct eval *ev, struct str text)
{
    enum pattern_result found = pattern_search(r->pattern[0], text, ev->work);
    if (found == PATTERN_INCONCLUSIVE || found == PATTERN_BAD_TEXT)
        ev->stop = ev->stop ? ev->stop : "inconclusive";
    bool holds = found == PATTERN_FOUND && (!r->format->also || r->format->also(text));
    if (r->format->is_open && r->format->is_open(text, holds))
        ev->stop = ev->stop ? ev->stop : "inconclusive";
    return holds;
}
