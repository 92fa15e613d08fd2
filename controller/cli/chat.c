/* `milepost chat`: a conversation with the model, streamed.
 *
 * The history is the messages array that is sent; a turn that failed is taken out of it again.
 * Control characters of the model never reach the terminal, except newline and tab. */
#include "controller/cli/cli.h"
#include "controller/cli/print.h"
#include "controller/cli/sse.h"

#include "common/http_client.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { CHAT_TIMEOUT_MS = 600000 };

struct chat {
    struct cli *cli;
    const char *model, *system;
    json_t *messages;
    struct buf answer, raw; /* text so far; bytes that were no event, for error answers */
    const char *url, *auth;
    json_t *usage;     /* of the last turn, NULL = none */
    char failure[200]; /* an error that came inside the stream */
};

static void put_safely(struct str text)
{
    for (size_t i = 0; i < text.n; i++) {
        unsigned char c = (unsigned char)text.p[i];
        if (c >= 0x20 ? c != 0x7F : c == '\n' || c == '\t')
            putchar(c);
    }
    fflush(stdout);
}

static bool on_event(void *ctx, struct str data)
{
    struct chat *chat = ctx;
    json_t *doc = NULL;

    if (str_eq_c(data, "[DONE]") || json_parse(data, 0, &doc, NULL) != ERR_OK)
        return true;
    const json_t *error = json_object_get(json_object_get(doc, "error"), "message");
    if (json_is_string(error))
        snprintf(chat->failure, sizeof chat->failure, "%s", json_string_value(error));
    const json_t *choice = json_array_get(json_object_get(doc, "choices"), 0);
    const json_t *text = json_object_get(json_object_get(choice, "delta"), "content");
    if (json_is_string(text)) {
        struct str piece = {json_string_value(text), json_string_length(text)};
        buf_put_str(&chat->answer, piece);
        if (!chat->cli->json)
            put_safely(piece);
    }
    if (json_is_object(json_object_get(doc, "usage"))) {
        json_decref(chat->usage);
        chat->usage = json_incref(json_object_get(doc, "usage"));
    }
    json_decref(doc);
    return true;
}

struct stream {
    struct chat *chat;
    struct sse sse;
};

static bool on_data(void *ctx, struct str piece)
{
    struct stream *s = ctx;

    if (s->chat->raw.n < 64 * KiB)
        buf_put_str(&s->chat->raw, piece);
    return sse_feed(&s->sse, piece);
}

static int refused(struct chat *chat, int status, struct err *e)
{
    json_t *doc = NULL;
    const char *message = NULL;

    if (json_parse(buf_str(&chat->raw), 0, &doc, NULL) == ERR_OK)
        message = json_string_value(json_object_get(json_object_get(doc, "error"), "message"));
    int rc = err_set(e, status == 400 ? ERR_INVALID : ERR_IO, "the engine answered %d: %s", status,
                     message ? message : "no message");
    json_decref(doc);
    return rc;
}

static int send_turn(struct chat *chat, struct str body, struct err *e)
{
    const char *headers[] = {chat->auth, NULL};
    struct stream stream = {.chat = chat};
    struct http_result r = {0};
    struct http_call call = {.url = chat->url,
                             .body = body,
                             .headers = chat->auth ? headers : NULL,
                             .timeout_ms = CHAT_TIMEOUT_MS,
                             .on_data = on_data,
                             .ctx = &stream};

    chat->failure[0] = '\0';
    buf_reset(&chat->answer);
    buf_reset(&chat->raw);
    sse_init(&stream.sse, 4 * MiB, on_event, chat);
    int rc = http_client_call(chat->cli->http, &call, &r, e);
    if (rc == ERR_OK && r.status != 200)
        rc = refused(chat, r.status, e);
    else if (rc == ERR_IO)
        rc = err_wrap(e, "no engine answers at %s (start one with 'milepost up')", chat->url);
    else if (rc == ERR_OK && chat->failure[0])
        rc = err_set(e, ERR_IO, "the engine broke off: %s", chat->failure);
    sse_fini(&stream.sse);
    http_result_free(&r);
    return rc;
}

static void add_message(struct chat *chat, const char *role, struct str content)
{
    json_t *m = json_object();

    json_object_set_new(m, "role", json_string(role));
    json_object_set_new(m, "content", json_str(content));
    json_array_append_new(chat->messages, m);
}

static int turn(struct chat *chat, struct str question, struct err *e)
{
    struct buf body;
    int rc;

    buf_init(&body, 16 * MiB);
    add_message(chat, "user", question);
    json_t *request = json_pack("{s:O, s:b, s:{s:b}}", "messages", chat->messages, "stream", 1,
                                "stream_options", "include_usage", 1);
    if (chat->model[0] != '\0')
        json_object_set_new(request, "model", json_string(chat->model));
    TRY(json_write(request, &body, e));
    TRY(send_turn(chat, buf_str(&body), e));
    add_message(chat, "assistant", buf_str(&chat->answer));
out:
    if (rc != ERR_OK)
        json_array_remove(chat->messages, json_array_size(chat->messages) - 1);
    json_decref(request);
    buf_free(&body);
    return rc;
}

static void reset(struct chat *chat)
{
    json_array_clear(chat->messages);
    if (chat->system[0] != '\0')
        add_message(chat, "system", str_from(chat->system));
}

/* False at /quit. Other lines that begin with '/' are explained, never sent. */
static bool command(struct chat *chat, struct str line)
{
    if (str_eq_c(line, "/quit") || str_eq_c(line, "/exit"))
        return false;
    if (str_eq_c(line, "/reset")) {
        reset(chat);
        printf("(history cleared)\n");
    } else if (str_eq_c(line, "/usage") && chat->usage != NULL) {
        cli_print_json(chat->usage);
    } else {
        printf("/reset clears the history, /usage shows the last turn's tokens, /quit ends\n");
    }
    return true;
}

static int converse(struct chat *chat)
{
    bool is_terminal = isatty(STDIN_FILENO) == 1;
    char *line = NULL;
    size_t cap = 0;
    int code = CLI_OK;

    if (is_terminal)
        printf("Chatting with %s; /quit ends.\n", chat->url);
    for (;;) {
        struct err e = {0};
        if (is_terminal) {
            fputs("> ", stdout);
            fflush(stdout);
        }
        ssize_t n = getline(&line, &cap, stdin);
        if (n < 0)
            break;
        struct str text = str_trim((struct str){line, (size_t)n});
        if (text.n > 0 && text.p[0] == '/') {
            if (!command(chat, text))
                break;
            continue;
        }
        if (text.n == 0)
            continue;
        if (turn(chat, text, &e) != ERR_OK)
            code = cli_fail(&e);
        putchar('\n');
    }
    free(line);
    return code;
}

static int one_question(struct chat *chat, struct str question)
{
    struct err e = {0};

    if (turn(chat, question, &e) != ERR_OK)
        return cli_fail(&e);
    if (!chat->cli->json) {
        putchar('\n');
        return CLI_OK;
    }
    json_t *v = json_object();
    json_object_set_new(v, "answer", json_str(buf_str(&chat->answer)));
    json_object_set(v, "usage", chat->usage ? chat->usage : json_null());
    int code = cli_print_json(v);
    json_decref(v);
    return code;
}

static int open_chat(struct chat *chat, struct err *e)
{
    struct cli *c = chat->cli;
    struct str key = {0};

    chat->url = arena_printf(&c->arena, "%s/v1/chat/completions", cli_engine_url(c)).p;
    if (milepost_config_key(c->config.engine.api_key_file, "MILEPOST_API_KEY", &c->arena, &key,
                            e) != ERR_OK)
        return e->code;
    if (key.n > 0)
        chat->auth = arena_printf(&c->arena, "Authorization: Bearer " STR_FMT, STR_ARG(key)).p;
    chat->messages = json_array();
    buf_init(&chat->answer, 4 * MiB);
    buf_init(&chat->raw, MiB);
    reset(chat);
    return http_client_open(&c->http, e);
}

int cmd_chat(struct cli *c, int argc, char **argv)
{
    struct chat chat = {.cli = c, .model = "", .system = ""};
    const struct opt options[] = {
        {"model", 'm', OPT_TEXT, &chat.model, 0, 0, "NAME", "model or model:route"},
        {"system", 0, OPT_TEXT, &chat.system, 0, 0, "TEXT", "system message"},
    };
    const struct cli_usage usage = {
        .line = "milepost chat [QUESTION] [--model NAME[:ROUTE]] [--system TEXT]",
        .about = "Without a question: a conversation, one line a turn; /reset, /usage, /quit.\n"
                 "With one: the answer and nothing else.",
        .opt = options,
        .n_opt = 2,
        .max_args = 1};
    struct err e = {0};
    int n_args;
    int code = cli_begin(c, &usage, argc, argv, &n_args);

    if (code != CLI_CONTINUE)
        return code;
    if (open_chat(&chat, &e) != ERR_OK)
        code = cli_fail(&e);
    else
        code = n_args == 1 ? one_question(&chat, str_from(argv[0])) : converse(&chat);
    json_decref(chat.messages);
    json_decref(chat.usage);
    buf_free(&chat.answer);
    buf_free(&chat.raw);
    return code;
}
