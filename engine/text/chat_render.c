/* Gathering and encoding of a rendered conversation. One owner, no state beyond struct chat_render.
 */
#include "engine/text/chat_render.h"

#include "common/utf8.h"

void chat_flush(struct chat_render *r)
{
    struct str text = buf_str(&r->text);
    if (r->rc == ERR_OK)
        r->rc = buf_check(&r->text, "chat template: the conversation", r->e);
    if (r->rc != ERR_OK || text.n == 0)
        return;
    size_t used = r->out.n < r->out.cap ? r->out.n : r->out.cap, n = 0;
    int rc = tokenizer_encode(r->tok, text, false, r->out.ids + used, r->out.cap - used, &n, r->e);
    /* Too many ids for the room is told at the end, with the number of them all. */
    if (rc != ERR_OK && n <= r->out.cap - used)
        r->rc = rc;
    r->out.n += n;
    buf_reset(&r->text);
}

void chat_put_text(struct chat_render *r, struct str text)
{
    buf_put_str(&r->text, text);
}

static void put_id(struct chat_render *r, int32_t id)
{
    chat_flush(r);
    id_sink_put(&r->out, id);
}

void chat_put_special(struct chat_render *r, struct str token_text)
{
    int32_t id = tokenizer_find(r->tok, token_text);
    if (tokenizer_is_special(r->tok, id))
        put_id(r, id);
    else
        chat_put_text(r, token_text);
}

void chat_put_bos(struct chat_render *r)
{
    int32_t bos = tokenizer_get_info(r->tok)->bos;
    if (bos >= 0 && chat_has(r, "bos_token"))
        put_id(r, bos);
}

void chat_put_eos(struct chat_render *r)
{
    int32_t eos = tokenizer_get_info(r->tok)->eos;
    if (eos >= 0)
        put_id(r, eos);
}

int chat_fail(struct chat_render *r, size_t message, const char *what)
{
    if (r->rc == ERR_OK)
        r->rc = err_set(r->e, ERR_INVALID, "message %zu: %s (chat template %s)", message, what,
                        r->name);
    return r->rc;
}

int chat_check_turns(struct chat_render *r, const struct chat_message *m, size_t n, size_t from)
{
    for (size_t i = from; i < n; i++) {
        const char *want = (i - from) % 2 ? "assistant" : "user";
        if (!str_eq_c(m[i].role, want))
            return chat_fail(r, i,
                             (i - from) % 2
                                 ? "role must be assistant here: user and assistant take "
                                   "turns"
                                 : "role must be user here: user and assistant take "
                                   "turns, and system may only come first");
    }
    return ERR_OK;
}

bool chat_has(const struct chat_render *r, const char *text)
{
    return str_find(r->jinja, str_from(text), 0) >= 0;
}

static bool is_python_space(uint32_t cp)
{
    return (cp >= 0x09 && cp <= 0x0D) || (cp >= 0x1C && cp <= 0x20) || cp == 0x85 || cp == 0xA0 ||
           cp == 0x1680 || (cp >= 0x2000 && cp <= 0x200A) || cp == 0x2028 || cp == 0x2029 ||
           cp == 0x202F || cp == 0x205F || cp == 0x3000;
}

struct str chat_strip(struct str s)
{
    size_t first = s.n, end = 0;
    for (size_t at = 0; at < s.n;) {
        uint32_t cp = 0;
        size_t n = utf8_decode(str_slice(s, at, s.n), &cp);
        if (n == 0 || !is_python_space(cp)) {
            first = at < first ? at : first;
            end = at + (n ? n : 1);
        }
        at += n ? n : 1;
    }
    return first < end ? str_slice(s, first, end) : STR("");
}

/* Behind `content`, a closing quote, bracket or space: is there "| trim"? */
static bool is_trim_next(struct str s)
{
    size_t at = 0;
    while (at < s.n && (s.p[at] == '\'' || s.p[at] == '"' || s.p[at] == ']' || s.p[at] == ' '))
        at++;
    if (at >= s.n || s.p[at] != '|')
        return false;
    return str_starts(str_trim(str_slice(s, at + 1, s.n)), STR("trim"));
}

bool chat_is_trimming(struct str jinja)
{
    struct str word = STR("content");
    for (ptrdiff_t at = 0; (at = str_find(jinja, word, (size_t)at)) >= 0;) {
        at += (ptrdiff_t)word.n;
        if (is_trim_next(str_slice(jinja, (size_t)at, jinja.n)))
            return true;
    }
    return false;
}

struct str chat_content(const struct chat_render *r, struct str content)
{
    return r->trims ? chat_strip(content) : content;
}
