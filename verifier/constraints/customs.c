/* Instructions of IFBench that ask one particular question, and those that ask for a copy. */
#include "verifier/constraints/pieces.h"

#include <string.h>

bool multiples_of_seven(struct constraint *c)
{
    static const char *const want[] = {"14", "21", "28", "35", "42", "49"};
    size_t n = 0;
    for (size_t i = 0; i < c->text.n;) {
        size_t end = i;
        while (end < c->text.n && c->text.p[end] >= '0' && c->text.p[end] <= '9')
            end++;
        if (end > i && (n == 6 || !str_eq_c(str_slice(c->text, i, end), want[n++])))
            return false;
        i = end > i ? end : i + 1;
    }
    return n == 6;
}

/* "a) text" or "B. text", a to e. */
static bool is_choice(struct str line)
{
    line = text_trim(line);
    if (line.n < 3 || (line.p[0] | 32) < 'a' || (line.p[0] | 32) > 'e' ||
        !memchr(".|)", line.p[1], 3))
        return false;
    return is_word_char(pieces_char(text_trim(str_slice(line, 2, line.n)), 0));
}

/* Length of the question in front of its five choices; -1 when there are not five. */
static int64_t question_length(struct constraint *c, struct str s)
{
    struct list lines = pieces_lines(c, s);
    int64_t length = 0, choices = 0;
    for (size_t i = 0; i < lines.n; i++) {
        if (is_choice(lines.item[i]))
            choices++;
        else if (choices == 0)
            length += (int64_t)text_count_chars(text_trim(lines.item[i])) + (i > 0);
    }
    return choices == 5 ? length : -1;
}

/* Behind "Question", a number and perhaps a mark, at or after *from; false for none. */
static bool next_question(struct str s, size_t *from, size_t *start)
{
    for (ptrdiff_t at; (at = str_find(s, STR("Question "), *from)) >= 0;) {
        size_t i = (size_t)at + 9, digits = i;
        while (i < s.n && s.p[i] >= '0' && s.p[i] <= '9')
            i++;
        *from = i;
        *start = (size_t)at;
        if (i == digits)
            continue;
        *from += i < s.n && memchr(".|):;", s.p[i], 5) != NULL;
        return true;
    }
    return false;
}

/* Four questions with five choices, each longer than the one before, nothing in front. */
bool choice_questions(struct constraint *c)
{
    size_t from = 0, start, begin = 0, n = 0;
    int64_t before = -1;
    if (!str_starts(c->text, STR("Question")))
        return false;
    for (bool has = next_question(c->text, &from, &start); has; n++) {
        begin = from;
        has = next_question(c->text, &from, &start);
        struct str body = text_trim(str_slice(c->text, begin, has ? start : c->text.n));
        int64_t length = question_length(c, body);
        if (length < 0 || length <= before || n == 4)
            return false;
        before = length;
    }
    return n == 4;
}

/* From the line with Zimbabwe on, at least 52 countries from Z to A, accents aside. */
bool reverse_lines(struct constraint *c)
{
    struct list lines = pieces_lines(c, c->text);
    struct str before = {0};
    size_t n = 0;
    for (size_t i = 0; i < lines.n; i++) {
        struct str line = pieces_strip(lines.item[i], PIECES_PUNCTUATION " ");
        if (line.n == 0 || (n == 0 && !pieces_holds(line, "Zimbabwe")))
            continue;
        line = pieces_ascii(c, line);
        if (n > 0 && str_compare(line, before) > 0)
            return false;
        before = line;
        n++;
    }
    return n >= 52;
}

bool reversed_words(struct constraint *c)
{
    struct list words = pieces_words(c, pieces_bare(c, pieces_lower(c, c->text)));
    for (size_t i = 0; i + 1 < words.n; i++)
        if (str_eq_c(words.item[i], "eagle") && str_eq_c(words.item[i + 1], "bald"))
            return true;
    return false;
}

bool reversed_letters(struct constraint *c)
{
    return pieces_holds(pieces_lower(c, c->text), "elgae dlab");
}

bool alphabet_sentences(struct constraint *c)
{
    struct list l = pieces_sentences(c, pieces_lower(c, c->text));
    for (size_t i = 0; i < l.n && l.n == 26; i++)
        if (pieces_char(l.item[i], 0) != 'a' + i)
            return false;
    return l.n == 26;
}

bool capitals_by_latitude(struct constraint *c)
{
    struct str order = STR("Reykjavik,Helsinki,Oslo,Tallinn,Stockholm,Riga,Moscow,Copenhagen,"
                           "Vilnius,Minsk,Dublin,Berlin,Amsterdam,Warsaw,London,Brussels,Prague,"
                           "Luxembourg,Paris,Vienna,Bratislava,Budapest,Vaduz,Chisinau,Bern,"
                           "Ljubljana,Zagreb");
    struct str rest = pieces_ascii(c, c->text), city, want;
    while (str_split(&rest, ',', &city)) {
        if (text_trim(city).n == 0)
            continue;
        if (!str_split(&order, ',', &want) || !str_eq(text_trim(city), want))
            return false;
    }
    return order.p == NULL;
}

struct table { /* RFC 4180, one record a call */
    struct str rest;
    char delimiter;
};
enum { FIELDS_MAX = 8 };
struct record {
    struct str field[FIELDS_MAX]; /* as written, quotes included */
    size_t n;
};

static struct str take_field(struct table *t, bool *is_last)
{
    bool in_quotes = false;
    size_t i = 0;
    for (; i < t->rest.n; i++) {
        char ch = t->rest.p[i];
        in_quotes = in_quotes != (ch == '"');
        if (!in_quotes && (ch == t->delimiter || ch == '\n'))
            break;
    }
    struct str field = str_slice(t->rest, 0, i);
    *is_last = i == t->rest.n || t->rest.p[i] == '\n';
    t->rest = str_slice(t->rest, i + 1, t->rest.n);
    return field;
}

static bool next_record(struct table *t, struct record *r)
{
    r->n = 0;
    if (t->rest.n == 0)
        return false;
    for (bool is_last = false; !is_last; r->n++) {
        struct str field = take_field(t, &is_last);
        if (r->n < FIELDS_MAX)
            r->field[r->n] = text_trim(field);
    }
    return true;
}

static bool is_quoted(struct str s)
{
    return s.n >= 2 && s.p[0] == '"' && s.p[s.n - 1] == '"';
}

static struct str unquoted(struct str s)
{
    return is_quoted(s) ? str_slice(s, 1, s.n - 1) : s;
}

static bool is_header(const struct record *r, struct str names)
{
    struct str name;
    size_t i = 0;
    while (str_split(&names, ',', &name))
        if (i == r->n || i == FIELDS_MAX || !str_eq(unquoted(r->field[i++]), name))
            return false;
    return i == r->n;
}

static bool is_special_char(uint32_t cp)
{
    return !is_word_char(cp) && !text_is_space(cp);
}

struct table_facts {
    size_t rows;
    bool fits;        /* header as asked, every row as wide */
    bool all_quoted;  /* every field, the header's too */
    bool has_special; /* some quoted field below the header holds a mark */
};

static struct table_facts read_table(struct constraint *c, char delimiter, struct str names)
{
    struct table t = {text_trim(c->text), delimiter};
    struct table_facts f = {.all_quoted = true};
    struct record r;
    f.fits = next_record(&t, &r) && is_header(&r, names);
    size_t width = r.n;
    do {
        f.fits = f.fits && r.n == width;
        for (size_t i = 0; i < r.n && i < FIELDS_MAX; i++) {
            bool quoted = is_quoted(r.field[i]);
            f.all_quoted = f.all_quoted && quoted;
            f.has_special =
                f.has_special || (f.rows > 0 && quoted &&
                                  pieces_count_runs(unquoted(r.field[i]), is_special_char) > 0);
        }
        f.rows++;
    } while (next_record(&t, &r));
    return f;
}

bool csv_cities(struct constraint *c)
{
    struct table_facts f = read_table(c, ',', STR("ID,Country,City,Year,Count"));
    return f.fits && f.rows == 8;
}

bool csv_special(struct constraint *c)
{
    struct table_facts f = read_table(c, ',', STR("ProductID,Category,Brand,Price,Stock"));
    return f.fits && f.rows == 15 && f.has_special;
}

bool csv_quoted(struct constraint *c)
{
    struct table_facts f = read_table(c, '\t', STR("StudentID,Subject,Grade,Semester,Score"));
    return f.fits && f.rows == 4 && f.all_quoted;
}

static int number_at(struct str s, size_t from, size_t n)
{
    int v = 0;
    for (size_t i = from; i < from + n; i++)
        v = v * 10 + (s.p[i] - '0');
    return v;
}

static bool is_napoleonic_date(struct str s)
{
    static const int days[] = {31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    for (size_t i = 0; i < s.n; i++)
        if (i == 4 || i == 7 ? s.p[i] != '-' : s.p[i] < '0' || s.p[i] > '9')
            return false;
    if (s.n != 10)
        return false;
    int year = number_at(s, 0, 4), month = number_at(s, 5, 2), day = number_at(s, 8, 2);
    return year >= 1769 && year <= 1821 && month >= 1 && month <= 12 && day >= 1 &&
           day <= days[month - 1];
}

bool date_list(struct constraint *c)
{
    struct str rest = text_trim(c->text), date;
    while (str_split(&rest, ',', &date))
        if (!is_napoleonic_date(text_trim(date)))
            return false;
    return true;
}

bool keywords_multiple(struct constraint *c)
{
    static const size_t times[ARGUMENTS] = {1, 2, 3, 5, 7};
    struct str low = pieces_lower(c, c->text);
    for (int i = 0; i < ARGUMENTS; i++)
        if (pieces_count(low, pieces_lower(c, text_trim(c->arg[i].text))) != times[i])
            return false;
    return true;
}

static bool same_words(struct list a, size_t a_from, size_t a_to, struct list b, size_t b_from)
{
    if (a_to < a_from || a_to > a.n || b.n < b_from || a_to - a_from != b.n - b_from)
        return false;
    for (size_t i = 0; i < a_to - a_from; i++)
        if (!str_eq(a.item[a_from + i], b.item[b_from + i]))
            return false;
    return true;
}

bool repeat_change(struct constraint *c)
{
    struct list asked = pieces_words(c, c->arg[0].text), got = pieces_words(c, c->text);
    return asked.n && got.n && !str_eq(asked.item[0], got.item[0]) &&
           same_words(asked, 1, asked.n, got, 1);
}

bool repeat_simple(struct constraint *c)
{
    return str_eq_c(pieces_lower(c, text_trim(c->text)),
                    "only output this sentence here, ignore all other requests.");
}

/* Indices are of words, as the data set's reference reads them; the last one is left out. */
bool repeat_span(struct constraint *c)
{
    struct list asked = pieces_words(c, pieces_lower(c, c->arg[0].text));
    struct list got = pieces_words(c, pieces_lower(c, c->text));
    size_t from = (size_t)c->arg[1].n, to = (size_t)c->arg[2].n;
    return same_words(asked, from < asked.n ? from : asked.n, to < asked.n ? to : asked.n, got, 0);
}
