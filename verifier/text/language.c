/* The only file that knows libexttextcat. Its list of profiles is a file: written to memory here,
 * so that only common languages compete (Scots would take English texts from English). */
#include "verifier/text/language.h"

#include "verifier/text/text.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <textcat.h>
#include <unistd.h>
#include <utf8proc.h>

#define PROFILES "/usr/share/libexttextcat/"

enum {
    SAMPLE_BYTES = 2048, /* from the beginning, the middle and the end */
    LEAST_LETTERS = 16,  /* fewer tell nothing where languages share a script */
    SURE_LETTERS = 40,   /* fewer never speak against a language */
};

struct language {
    void *handle;
    pthread_mutex_t lock;
};

/* Profiles that compete. */
static const char *const NAMES[] = {
    "af", "ar", "az", "be", "bg", "bs", "ca", "cs", "cy", "da",      "de",      "el",
    "en", "eo", "es", "et", "eu", "fa", "fi", "fr", "ga", "gl",      "gu",      "he",
    "hi", "hr", "hu", "hy", "id", "is", "it", "ja", "ka", "kk",      "kn",      "ko",
    "la", "lt", "lv", "mk", "ml", "mn", "mr", "ms", "nb", "ne",      "nl",      "nn",
    "pa", "pl", "pt", "ro", "ru", "sk", "sl", "so", "sq", "sr-Cyrl", "sr-Latn", "sv",
    "sw", "ta", "th", "tl", "tr", "uk", "ur", "uz", "vi", "zh-Hans", "zh-Hant",
};
enum { NAMES_N = sizeof NAMES / sizeof NAMES[0] };

/* Blocks of Unicode; a script with one language names it. Kana stand before Han. */
static const struct script {
    const char *language; /* NULL: profiles decide */
    uint32_t from, to;
} SCRIPTS[] = {
    {NULL, 0x41, 0x24F},    {NULL, 0x1E00, 0x1EFF}, {"el", 0x370, 0x3FF},   {NULL, 0x400, 0x52F},
    {"hy", 0x530, 0x58F},   {"he", 0x590, 0x5FF},   {NULL, 0x600, 0x77F},   {NULL, 0x900, 0x97F},
    {"bn", 0x980, 0x9FF},   {"pa", 0xA00, 0xA7F},   {"gu", 0xA80, 0xAFF},   {"ta", 0xB80, 0xBFF},
    {"te", 0xC00, 0xC7F},   {"kn", 0xC80, 0xCFF},   {"ml", 0xD00, 0xD7F},   {"si", 0xD80, 0xDFF},
    {"th", 0xE00, 0xE7F},   {"lo", 0xE80, 0xEFF},   {"bo", 0xF00, 0xFFF},   {"my", 0x1000, 0x109F},
    {"ka", 0x10A0, 0x10FF}, {"am", 0x1200, 0x137F}, {"km", 0x1780, 0x17FF}, {"ja", 0x3040, 0x30FF},
    {"zh", 0x4E00, 0x9FFF}, {"ko", 0xAC00, 0xD7AF}, {"ko", 0x1100, 0x11FF},
};
enum { SCRIPTS_N = sizeof SCRIPTS / sizeof SCRIPTS[0] };

static struct str primary(struct str code)
{
    struct str rest = code, front;
    return str_split(&rest, '-', &front) ? front : STR("");
}

static bool is_same(struct str code, const char *name)
{
    struct str wanted = primary(code), found = primary(str_from(name));
    bool is_norwegian = str_eq_c(wanted, "no");
    return str_eq(wanted, found) ||
           (is_norwegian && (str_eq_c(found, "nb") || str_eq_c(found, "nn")));
}

bool language_is_known(struct str code)
{
    for (int i = 0; i < NAMES_N; i++)
        if (is_same(code, NAMES[i]))
            return true;
    for (int i = 0; i < SCRIPTS_N; i++)
        if (SCRIPTS[i].language && is_same(code, SCRIPTS[i].language))
            return true;
    return false;
}

void language_codes(struct buf *out)
{
    for (int i = 0; i < NAMES_N; i++)
        buf_printf(out, "%s%s", i ? ", " : "", NAMES[i]);
    buf_put_c(out, ", no, am, bn, bo, km, lo, my, si, te");
}

static void *open_profiles(void)
{
    char path[64];
    int fd = memfd_create("languages", MFD_CLOEXEC);
    if (fd < 0)
        return NULL;
    for (int i = 0; i < NAMES_N; i++)
        dprintf(fd, "%s.lm %s\n", NAMES[i], NAMES[i]);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    void *handle = special_textcat_Init(path, PROFILES);
    close(fd);
    return handle;
}

int language_open(struct language **out, struct err *e)
{
    *out = NULL;
    struct language *l = calloc(1, sizeof *l);
    if (!l)
        return err_set(e, ERR_NOMEM, "no memory for language profiles");
    l->handle = open_profiles();
    if (!l->handle) {
        free(l);
        return err_set(e, ERR_UNSUPPORTED,
                       "language profiles: not readable below " PROFILES
                       " (install libexttextcat-data)");
    }
    pthread_mutex_init(&l->lock, NULL);
    *out = l;
    return ERR_OK;
}

void language_close(struct language *l)
{
    if (!l)
        return;
    textcat_Done(l->handle);
    pthread_mutex_destroy(&l->lock);
    free(l);
}

static bool is_letter(uint32_t cp)
{
    utf8proc_category_t k = utf8proc_category((utf8proc_int32_t)cp);
    return k >= UTF8PROC_CATEGORY_LU && k <= UTF8PROC_CATEGORY_LO;
}

static int script_of(uint32_t cp)
{
    for (int i = 0; i < SCRIPTS_N; i++)
        if (cp >= SCRIPTS[i].from && cp <= SCRIPTS[i].to)
            return i;
    return -1;
}

struct sample {
    char text[3 * SAMPLE_BYTES + 4 * 4]; /* letters in lower case, single spaces */
    size_t n;
    uint32_t letters, in[SCRIPTS_N];
};

static void add_char(struct sample *s, uint32_t cp)
{
    if (s->n + 4 > sizeof s->text)
        return;
    if (!is_letter(cp) && utf8proc_category((utf8proc_int32_t)cp) != UTF8PROC_CATEGORY_MN &&
        utf8proc_category((utf8proc_int32_t)cp) != UTF8PROC_CATEGORY_MC && cp != '\'') {
        if (s->n && s->text[s->n - 1] != ' ')
            s->text[s->n++] = ' ';
        return;
    }
    int script = script_of(cp);
    s->letters += is_letter(cp);
    if (script >= 0)
        s->in[script] += is_letter(cp);
    s->n += (size_t)utf8proc_encode_char(utf8proc_tolower((utf8proc_int32_t)cp),
                                         (utf8proc_uint8_t *)s->text + s->n);
}

static void take_sample(struct str text, struct sample *s)
{
    bool is_long = text.n > 3 * SAMPLE_BYTES;
    size_t from[] = {0, text.n / 2, text.n - SAMPLE_BYTES};
    *s = (struct sample){.n = 0};
    for (int i = 0; i < (is_long ? 3 : 1); i++) {
        struct str rest = is_long ? str_slice(text, from[i], from[i] + SAMPLE_BYTES) : text;
        for (uint32_t cp; text_next_char(&rest, &cp);)
            add_char(s, cp);
    }
}

/* The script most letters are in; kana mark a text as Japanese however many Han it has. */
static const struct script *main_script(const struct sample *s)
{
    int best = 0, kana = script_of(0x3042), han = script_of(0x4E00);
    for (int i = 1; i < SCRIPTS_N; i++)
        best = s->in[i] > s->in[best] ? i : best;
    if (best == han && s->in[kana] * 10 > s->in[han])
        best = kana;
    return &SCRIPTS[best];
}

static bool is_candidate(const struct language *l, const struct sample *s, struct str code)
{
    bool is_there = false;
    struct language *own = (struct language *)l; /* the lock is what changes */
    pthread_mutex_lock(&own->lock);
    candidate_t *found = textcat_GetClassifyFullOutput(own->handle);
    int n = found ? textcat_ClassifyFull(own->handle, s->text, s->n, found) : 0;
    for (int i = 0; i < n; i++)
        is_there = is_there || is_same(code, found[i].name);
    textcat_ReleaseClassifyFullOutput(own->handle, found);
    pthread_mutex_unlock(&own->lock);
    return is_there;
}

/* A language that is written in a script of its own, or not in the one that the text is in. */
static bool is_elsewhere(const struct script *script, struct str code)
{
    static const char *const by_profile[][10] = {
        {"ru", "uk", "be", "bg", "mk", "kk", "mn", "sr"}, {"ar", "fa", "ur"}, {"hi", "mr", "ne"}};
    static const uint32_t from[] = {0x400, 0x600, 0x900};
    for (int i = 0; i < SCRIPTS_N; i++)
        if (SCRIPTS[i].language && is_same(code, SCRIPTS[i].language))
            return true;
    for (int k = 0; k < 3; k++)
        for (int i = 0; i < 10 && by_profile[k][i]; i++)
            if (is_same(code, by_profile[k][i]) && !str_eq_c(primary(code), "sr"))
                return script->from != from[k];
    return script->from >= 0x370 && script->from < 0x1E00 && !str_eq_c(primary(code), "sr");
}

enum language_answer language_is(const struct language *l, struct str text, struct str code)
{
    struct sample s;
    take_sample(text, &s);
    const struct script *script = main_script(&s);
    if (s.letters == 0)
        return LANGUAGE_UNSURE;
    if (script->language)
        return is_same(code, script->language) ? LANGUAGE_YES : LANGUAGE_NO;
    if (is_elsewhere(script, code))
        return LANGUAGE_NO;
    if (s.letters < LEAST_LETTERS)
        return LANGUAGE_UNSURE;
    if (is_candidate(l, &s, code))
        return LANGUAGE_YES;
    return s.letters < SURE_LETTERS ? LANGUAGE_UNSURE : LANGUAGE_NO;
}
