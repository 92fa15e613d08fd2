/* The known templates: markers that recognise one, and a renderer that writes what its Jinja text
 * would. Details in which models of one family differ (default system prompt, spaces, BOS) are read
 * from the constant texts of the file's template. New template = one row and one renderer. */
#include "engine/text/chat_template.h"

#include "engine/model/gguf.h"
#include "engine/text/chat_render.h"
#include "engine/text/jinja_text.h"

enum { MAX_JINJA_BYTES = 256 * 1024, MAX_MESSAGES = 65536, N_MARKERS = 3 };
#define MAX_TEXT_BYTES (256 * MiB)
#define DS_USER        "<\xEF\xBD\x9CUser\xEF\xBD\x9C>"
#define DS_ASSISTANT                                                                               \
    "<\xEF\xBD\x9C"                                                                                \
    "Assistant\xEF\xBD\x9C>"
#define DS_END                                                                                     \
    "<\xEF\xBD\x9C"                                                                                \
    "end\xE2\x96\x81of\xE2\x96\x81sentence\xEF\xBD\x9C>"

typedef void render_fn(struct chat_render *r, const struct chat_message *m, size_t n);

struct chat_template {
    const char *name;
    const char *marker[N_MARKERS]; /* all in the file's text */
    const char *absent[2];         /* and these not: another family, or turns not known here */
    const char *plain;             /* the details when the file's text is of another template */
    render_fn *render;
};

static bool has_role(const struct chat_message *m, const char *role)
{
    return str_eq_c(m->role, role);
}

static bool is_known_role(const struct chat_message *m)
{
    return has_role(m, "system") || has_role(m, "user") || has_role(m, "assistant");
}

static void chatml_turn(struct chat_render *r, struct str role, struct str content)
{
    chat_put_special(r, STR("<|im_start|>"));
    chat_put_text(r, role);
    chat_put_text(r, STR("\n"));
    chat_put_text(r, content);
    chat_put_special(r, STR("<|im_end|>"));
    chat_put_text(r, STR("\n"));
}

/* SmolLM2, Qwen2 and others write a system turn of their own when the conversation has none. */
static void chatml_default_system(struct chat_render *r)
{
    struct buf text;
    buf_init(&text, 64 * KiB);
    if (jinja_find_between(r->jinja, STR("<|im_start|>system\n"), STR("<|im_end|>"), &text))
        chatml_turn(r, STR("system"), buf_str(&text));
    buf_free(&text);
}

static void render_chatml(struct chat_render *r, const struct chat_message *m, size_t n)
{
    chat_put_bos(r);
    if (!has_role(&m[0], "system"))
        chatml_default_system(r);
    for (size_t i = 0; i < n; i++) {
        if (!is_known_role(&m[i]) && !(has_role(&m[i], "tool") && !chat_has(r, "tool"))) {
            chat_fail(r, i, "role must be system, user or assistant");
            return;
        }
        chatml_turn(r, m[i].role, chat_content(r, m[i].content));
    }
    chat_put_special(r, STR("<|im_start|>"));
    chat_put_text(r, STR("assistant\n"));
}

static void llama3_head(struct chat_render *r, struct str role)
{
    chat_put_special(r, STR("<|start_header_id|>"));
    chat_put_text(r, role);
    chat_put_special(r, STR("<|end_header_id|>"));
    chat_put_text(r, STR("\n\n"));
}

/* Llama 3.1 and later always write a system turn that begins with two dates. The second is the
 * template's own default: the text of a prompt must not depend on the day. */
static size_t llama3_dated_system(struct chat_render *r, const struct chat_message *m)
{
    bool has_system = has_role(&m[0], "system");
    struct buf date;
    buf_init(&date, KiB);
    llama3_head(r, STR("system"));
    chat_put_text(r, STR("Cutting Knowledge Date: December 2023\nToday Date: "));
    if (jinja_find_quoted_after(r->jinja, STR("date_string = "), &date))
        chat_put_text(r, buf_str(&date));
    chat_put_text(r, STR("\n\n"));
    if (has_system)
        chat_put_text(r, chat_content(r, m[0].content));
    chat_put_special(r, STR("<|eot_id|>"));
    buf_free(&date);
    return has_system;
}

static void render_llama3(struct chat_render *r, const struct chat_message *m, size_t n)
{
    size_t first = 0;
    chat_put_bos(r);
    if (chat_has(r, "Cutting Knowledge Date: December 2023"))
        first = llama3_dated_system(r, m);
    for (size_t i = first; i < n; i++) {
        if (!is_known_role(&m[i])) {
            chat_fail(r, i, "role must be system, user or assistant");
            return;
        }
        llama3_head(r, m[i].role);
        chat_put_text(r, chat_content(r, m[i].content));
        chat_put_special(r, STR("<|eot_id|>"));
    }
    llama3_head(r, STR("assistant"));
}

/* A constant text around a control token: " [INST] " is written as " ", the token, " ". */
static void put_around(struct chat_render *r, struct str marker)
{
    struct buf text;
    buf_init(&text, KiB);
    bool is_found = jinja_find_text(r->jinja, marker, &text);
    struct str all = is_found ? buf_str(&text) : marker;
    size_t at = (size_t)str_find(all, marker, 0);
    chat_put_text(r, str_slice(all, 0, at));
    chat_put_special(r, marker);
    chat_put_text(r, str_slice(all, at + marker.n, all.n));
    buf_free(&text);
}

static void mistral_assistant(struct chat_render *r, struct str content)
{
    if (chat_has(r, "' ' + message") || chat_has(r, "\" \" + message"))
        chat_put_text(r, STR(" "));
    chat_put_text(r, chat_content(r, content));
    chat_put_eos(r);
    if (chat_has(r, "eos_token + ' '"))
        chat_put_text(r, STR(" "));
}

/* The system prompt has no turn of its own: it stands before the content of the first or of the
 * last user message, as the template's text says, or is refused. */
static void render_mistral(struct chat_render *r, const struct chat_message *m, size_t n)
{
    bool has_system = has_role(&m[0], "system");
    bool in_first = chat_has(r, "loop.first and system_message");
    bool in_last = chat_has(r, "loop.last and system_message");
    if (has_system && !in_first && !in_last) {
        chat_fail(r, 0, "role must be user: this model has no system turn");
        return;
    }
    if (chat_check_turns(r, m, n, has_system) != ERR_OK)
        return;
    chat_put_bos(r);
    for (size_t i = has_system; i < n; i++) {
        if (has_role(&m[i], "assistant")) {
            mistral_assistant(r, m[i].content);
            continue;
        }
        put_around(r, STR("[INST]"));
        if (has_system && i == (in_first ? 1 : n - 1)) {
            chat_put_text(r, m[0].content);
            chat_put_text(r, STR("\n\n"));
        }
        chat_put_text(r, m[i].content);
        put_around(r, STR("[/INST]"));
    }
}

static void gemma_open(struct chat_render *r, struct str role)
{
    chat_put_special(r, STR("<start_of_turn>"));
    chat_put_text(r, role);
    chat_put_text(r, STR("\n"));
}

/* Gemma 3 puts the system prompt before the first user content; Gemma 1 and 2 refuse it. */
static void gemma_system(struct chat_render *r, struct str content)
{
    struct buf gap;
    buf_init(&gap, KiB);
    chat_put_text(r, content);
    bool is_found = jinja_find_quoted_after(
        r->jinja, STR("first_user_prefix = messages[0]['content'] + "), &gap);
    chat_put_text(r, is_found ? buf_str(&gap) : STR("\n\n"));
    buf_free(&gap);
}

static void render_gemma(struct chat_render *r, const struct chat_message *m, size_t n)
{
    bool has_system = has_role(&m[0], "system");
    if (has_system && !chat_has(r, "first_user_prefix")) {
        chat_fail(r, 0, "role must be user: this model has no system turn");
        return;
    }
    if (chat_check_turns(r, m, n, has_system) != ERR_OK)
        return;
    chat_put_bos(r);
    for (size_t i = has_system; i < n; i++) {
        gemma_open(r, has_role(&m[i], "assistant") ? STR("model") : STR("user"));
        if (i == 1 && has_system)
            gemma_system(r, m[0].content);
        chat_put_text(r, chat_content(r, m[i].content));
        chat_put_special(r, STR("<end_of_turn>"));
        chat_put_text(r, STR("\n"));
    }
    gemma_open(r, STR("model"));
}

/* R1 leaves the reasoning of earlier turns out. */
static struct str without_reasoning(const struct chat_render *r, struct str content)
{
    static const char END[] = "</think>";
    if (!chat_has(r, "split('</think>')"))
        return content;
    for (ptrdiff_t at; (at = str_find(content, STR(END), 0)) >= 0;)
        content = str_slice(content, (size_t)at + sizeof END - 1, content.n);
    return content;
}

/* All system messages stand before the first turn: joined, or in older templates the last one. */
static void deepseek_system(struct chat_render *r, const struct chat_message *m, size_t n)
{
    bool joins = chat_has(r, "is_first_sp"), is_first = true;
    struct str last = STR("");
    for (size_t i = 0; i < n; i++) {
        if (!has_role(&m[i], "system"))
            continue;
        last = m[i].content;
        if (joins && !is_first)
            chat_put_text(r, STR("\n\n"));
        if (joins)
            chat_put_text(r, last);
        is_first = false;
    }
    if (!joins)
        chat_put_text(r, last);
}

static void render_deepseek(struct chat_render *r, const struct chat_message *m, size_t n)
{
    chat_put_bos(r);
    deepseek_system(r, m, n);
    for (size_t i = 0; i < n; i++) {
        bool is_user = has_role(&m[i], "user");
        if (!is_known_role(&m[i])) {
            chat_fail(r, i, "role must be system, user or assistant");
            return;
        }
        if (has_role(&m[i], "system"))
            continue;
        chat_put_special(r, is_user ? STR(DS_USER) : STR(DS_ASSISTANT));
        chat_put_text(r, is_user ? m[i].content : without_reasoning(r, m[i].content));
        if (!is_user)
            chat_put_special(r, STR(DS_END));
    }
    chat_put_special(r, STR(DS_ASSISTANT));
    if (chat_has(r, DS_ASSISTANT "<think>")) {
        chat_put_special(r, STR("<think>"));
        chat_put_text(r, STR("\n"));
    }
}

/* The plain forms: what matters of the authors' text, for a file that brings another one. */
static const struct chat_template TEMPLATES[] = {
    {.name = "llama3",
     .marker = {"<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"},
     .plain = "{{ bos_token }}{{ message['content'] | trim }}",
     .render = render_llama3},
    {.name = "deepseek",
     .marker = {DS_USER, DS_ASSISTANT},
     .plain = "{{ bos_token }}",
     .render = render_deepseek},
    {.name = "gemma",
     .marker = {"<start_of_turn>", "<end_of_turn>"},
     .plain = "{{ bos_token }}{{ message['content'] | trim }}{{ first_user_prefix }}",
     .render = render_gemma},
    {.name = "chatml",
     .marker = {"<|im_start|>", "<|im_end|>"},
     .plain = "",
     .render = render_chatml},
    {.name = "mistral",
     .marker = {"[INST]", "[/INST]"},
     .absent = {"<<SYS>>", "[SYSTEM_PROMPT]"},
     .plain = "{{ bos_token }}{{ '[INST] ' }}{{ ' [/INST]' }}{% if loop.last and system_message %}",
     .render = render_mistral},
};
enum { N_TEMPLATES = sizeof TEMPLATES / sizeof *TEMPLATES };

static void render_none(struct chat_render *r, const struct chat_message *m, size_t n)
{
    (void)m, (void)n;
    chat_fail(r, 0,
              "this model has no chat template: use /v1/completions, or set engine.chat_template");
}

/* Of a file that brings none: a pretrained model, which answers completions. */
static const struct chat_template NO_TEMPLATE = {
    .name = "none", .plain = "", .render = render_none};

static struct str file_jinja(const struct gguf *file)
{
    struct str jinja = STR("");
    if (gguf_get_str(file, "tokenizer.chat_template", &jinja, NULL) != ERR_OK ||
        jinja.n > MAX_JINJA_BYTES)
        return STR("");
    return jinja;
}

static bool is_text_of(const struct chat_template *t, struct str jinja)
{
    for (int i = 0; i < N_MARKERS && t->marker[i]; i++)
        if (str_find(jinja, str_from(t->marker[i]), 0) < 0)
            return false;
    for (int i = 0; i < 2 && t->absent[i]; i++)
        if (str_find(jinja, str_from(t->absent[i]), 0) >= 0)
            return false;
    return true;
}

static const struct chat_template *recognise(struct str jinja)
{
    for (int i = 0; i < N_TEMPLATES; i++)
        if (is_text_of(&TEMPLATES[i], jinja))
            return &TEMPLATES[i];
    return NULL;
}

static const struct chat_template *by_name(const char *name)
{
    for (int i = 0; i < N_TEMPLATES; i++)
        if (str_eq_c(str_from(name), TEMPLATES[i].name))
            return &TEMPLATES[i];
    return NULL;
}

int chat_template_find(const struct chat_template **out, const struct gguf *file, const char *name,
                       struct err *e)
{
    static const char KNOWN[] = "known are chatml, llama3, mistral, gemma, deepseek";
    struct str jinja = file_jinja(file);
    *out = name ? by_name(name) : recognise(jinja);
    struct str found;
    if (!name && gguf_get_str(file, "tokenizer.chat_template", &found, NULL) == ERR_NOT_FOUND)
        *out = &NO_TEMPLATE;
    if (*out)
        return ERR_OK;
    if (name)
        return err_set(e, ERR_UNSUPPORTED, "chat template: no template is called '%.40s'; %s", name,
                       KNOWN);
    if (!jinja.n)
        return err_set(
            e, ERR_UNSUPPORTED,
            "chat template: the model file's (tokenizer.chat_template) is empty, no text or above "
            "%d bytes; name one: %s",
            MAX_JINJA_BYTES, KNOWN);
    return err_set(e, ERR_UNSUPPORTED,
                   "chat template: '" STR_FMT "...' is not recognised; %s: name one, or use "
                   "/v1/completions",
                   STR_ARG(str_slice(jinja, 0, 60)), KNOWN);
}

const char *chat_template_name(const struct chat_template *t)
{
    return t->name;
}

int chat_template_encode(const struct chat_template *t, const struct tokenizer *tok,
                         const struct gguf *file, const struct chat_message *messages,
                         size_t n_messages, int32_t *ids, size_t cap, size_t *n, struct err *e)
{
    *n = 0;
    if (n_messages == 0 || n_messages > MAX_MESSAGES)
        return err_set(e, ERR_INVALID, "messages: %zu of them; 1 to %d are allowed", n_messages,
                       MAX_MESSAGES);
    struct str jinja = file_jinja(file);
    struct chat_render r = {.tok = tok,
                            .jinja = recognise(jinja) == t ? jinja : str_from(t->plain),
                            .out = {.ids = ids, .cap = cap},
                            .name = t->name,
                            .e = e};
    r.trims = chat_is_trimming(r.jinja);
    buf_init(&r.text, MAX_TEXT_BYTES);
    t->render(&r, messages, n_messages);
    chat_flush(&r);
    buf_free(&r.text);
    if (r.rc != ERR_OK)
        return r.rc;
    *n = r.out.n;
    if (*n > cap)
        return err_set(e, ERR_NOMEM, "chat template: %zu tokens; there is room for %zu", *n, cap);
    return ERR_OK;
}
