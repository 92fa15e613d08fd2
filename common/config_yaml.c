/* The only file that knows libfyaml: text in, tree of cfg_node out.
 *
 * The text is a person's, but treated as hostile: depth and size are bounded, and of YAML only what
 * a configuration needs is taken (no anchors, aliases, tags, merge keys, further documents). */
#include "common/config_node.h"
#include "common/utf8.h"

#include <libfyaml.h>
#include <limits.h>
#include <string.h>

enum { MAX_DEPTH = 24, MAX_NODES = 20000 };

struct builder {
    struct arena *arena;
    const char *name;
    struct err *e;
    uint32_t n_nodes;
    int line; /* of the latest token: where an empty mapping is reported */
};

static int refuse(const struct builder *b, const char *what)
{
    return err_set(b->e, ERR_INVALID, "%s:%d: %s", b->name, b->line, what);
}

static int no_memory(const struct builder *b)
{
    return err_set(b->e, ERR_NOMEM, "%s: out of memory while reading it", b->name);
}

static struct cfg_node *node_new(struct builder *b, enum cfg_node_type type)
{
    struct cfg_node *n = arena_alloc(b->arena, sizeof *n);
    if (n)
        *n = (struct cfg_node){.type = type, .line = b->line};
    return n;
}

static void note_line(struct builder *b, struct fy_node *fyn)
{
    struct fy_token *token = fy_node_is_scalar(fyn) ? fy_node_get_scalar_token(fyn) : NULL;
    const struct fy_mark *mark = token ? fy_token_start_mark(token) : NULL;
    if (mark)
        b->line = mark->line + 1;
}

static int build(struct builder *b, struct fy_node *fyn, unsigned depth, struct cfg_node **out);

static int build_scalar(struct builder *b, struct fy_node *fyn, struct cfg_node **out)
{
    size_t n = 0;
    const char *p = fy_node_get_scalar(fyn, &n);
    struct cfg_node *node = node_new(b, CFG_NODE_SCALAR);
    if (!node)
        return no_memory(b);
    node->text = arena_str(b->arena, (struct str){p ? p : "", n});
    enum fy_node_style style = fy_node_get_style(fyn);
    node->is_plain = style == FYNS_PLAIN || style == FYNS_ANY;
    *out = node;
    return node->text.p ? ERR_OK : no_memory(b);
}

static int build_key(struct builder *b, struct fy_node *fyn, struct str *out)
{
    if (!fyn || !fy_node_is_scalar(fyn) || fy_node_is_alias(fyn))
        return refuse(b, "a key must be plain text");
    note_line(b, fyn);
    size_t n = 0;
    const char *p = fy_node_get_scalar(fyn, &n);
    *out = arena_str(b->arena, (struct str){p ? p : "", n});
    if (!out->p)
        return no_memory(b);
    return str_eq_c(*out, "<<") ? refuse(b, "merge keys (<<) are not supported") : ERR_OK;
}

static int build_map(struct builder *b, struct fy_node *fyn, unsigned depth, struct cfg_node **out)
{
    struct cfg_node *map = node_new(b, CFG_NODE_MAP), **end = map ? &map->child : NULL;
    if (!map)
        return no_memory(b);
    void *at = NULL;
    struct fy_node_pair *pair;
    while ((pair = fy_node_mapping_iterate(fyn, &at))) {
        struct str key = {0};
        int rc = build_key(b, fy_node_pair_key(pair), &key);
        if (rc != ERR_OK)
            return rc;
        int line = b->line;
        if (map->n_child == 0)
            map->line = line;
        rc = build(b, fy_node_pair_value(pair), depth + 1, end);
        if (rc != ERR_OK)
            return rc;
        (*end)->key = key;
        (*end)->line = line;
        end = &(*end)->next;
        map->n_child++;
    }
    *out = map;
    return ERR_OK;
}

static int build_list(struct builder *b, struct fy_node *fyn, unsigned depth, struct cfg_node **out)
{
    struct cfg_node *list = node_new(b, CFG_NODE_LIST), **end = list ? &list->child : NULL;
    if (!list)
        return no_memory(b);
    void *at = NULL;
    struct fy_node *item;
    while ((item = fy_node_sequence_iterate(fyn, &at))) {
        int rc = build(b, item, depth + 1, end);
        if (rc != ERR_OK)
            return rc;
        end = &(*end)->next;
        list->n_child++;
    }
    *out = list;
    return ERR_OK;
}

static int build(struct builder *b, struct fy_node *fyn, unsigned depth, struct cfg_node **out)
{
    if (!fyn) { /* "key:" with nothing after it */
        *out = node_new(b, CFG_NODE_SCALAR);
        if (!*out)
            return no_memory(b);
        (*out)->text = STR("");
        (*out)->is_plain = true;
        return ERR_OK;
    }
    note_line(b, fyn);
    if (fy_node_is_alias(fyn) || fy_node_get_anchor(fyn))
        return refuse(b, "anchors and aliases are not supported; write the value out");
    if (fy_node_get_tag_token(fyn))
        return refuse(b, "tags are not supported");
    if (depth > MAX_DEPTH)
        return refuse(b, "nested too deep");
    if (++b->n_nodes > MAX_NODES)
        return refuse(b, "too many values");
    if (fy_node_is_mapping(fyn))
        return build_map(b, fyn, depth, out);
    return fy_node_is_sequence(fyn) ? build_list(b, fyn, depth, out) : build_scalar(b, fyn, out);
}

/* The library's first message, without its file name. */
static int syntax_error(const char *name, struct fy_parser *parser, struct err *e)
{
    void *at = NULL;
    struct fy_diag *diag = fy_parser_get_diag(parser);
    const struct fy_diag_error *first = diag ? fy_diag_errors_iterate(diag, &at) : NULL;
    int rc =
        first ? err_set(e, ERR_INVALID, "%s:%d: not valid YAML: %s", name, first->line, first->msg)
              : err_set(e, ERR_INVALID, "%s: not valid YAML", name);
    if (diag)
        fy_diag_unref(diag);
    return rc;
}

static int parse_document(struct fy_parser *parser, struct builder *b, struct cfg_node **out)
{
    struct fy_document *doc = fy_parse_load_document(parser), *second = NULL;
    if (!doc)
        return fy_parser_get_stream_error(parser) ? syntax_error(b->name, parser, b->e) : ERR_OK;
    int rc = ERR_OK;
    struct fy_node *root = fy_document_root(doc);
    if (root)
        rc = build(b, root, 0, out);
    if (rc == ERR_OK)
        second = fy_parse_load_document(parser);
    if (second)
        rc = refuse(b, "only one document is allowed (no --- in the middle)");
    else if (rc == ERR_OK && fy_parser_get_stream_error(parser))
        rc = syntax_error(b->name, parser, b->e);
    if (second)
        fy_parse_document_destroy(parser, second);
    fy_parse_document_destroy(parser, doc);
    return rc;
}

/* Does a '%' at this place start a line? */
static bool starts_line(struct str text, size_t at)
{
    static const struct str breaks[] = {{"\n", 1},           {"\r", 1},
                                        {"\xC2\x85", 2},     {"\xE2\x80\xA8", 3},
                                        {"\xE2\x80\xA9", 3}, {"\xEF\xBB\xBF", 3}};
    for (size_t i = 0; i < sizeof breaks / sizeof *breaks; i++) {
        if (str_ends(str_slice(text, 0, at), breaks[i]))
            return true;
    }
    return at == 0;
}

static int refuse_at(struct builder *b, struct str text, size_t at, const char *why)
{
    for (size_t i = 0; i < at; i++)
        b->line += text.p[i] == '\n';
    return refuse(b, why);
}

/* YAML is Unicode (YAML 1.2.2, section 5.1); libfyaml 0.7.12 does not say where it is not. */
static int refuse_other_bytes(struct builder *b, struct str text)
{
    uint32_t cp;
    for (size_t at = 0, n; at < text.n; at += n) {
        n = utf8_decode(str_slice(text, at, text.n), &cp);
        if (n == 0)
            return refuse_at(b, text, at, "the bytes here are no UTF-8: save the file as UTF-8");
    }
    return ERR_OK;
}

/* Directives ("%YAML 1.2") are not needed, and libfyaml 0.7.12 loops for ever on a cut one. */
static int refuse_directives(struct builder *b, struct str text)
{
    ptrdiff_t at = -1;
    while ((at = str_find(text, STR("%"), (size_t)(at + 1))) >= 0) {
        if (starts_line(text, (size_t)at))
            return refuse_at(b, text, (size_t)at,
                             "a line cannot start with % (directives are not supported)");
    }
    return ERR_OK;
}

int cfg_parse_yaml(struct str text, const char *name, struct arena *a, struct cfg_node **out,
                   struct err *e)
{
    *out = NULL;
    struct builder b = {.arena = a, .name = name, .e = e, .line = 1};
    int rc = refuse_other_bytes(&b, text);
    if (rc == ERR_OK)
        rc = refuse_directives(&b, text);
    if (rc != ERR_OK)
        return rc;
    struct fy_diag_cfg diag_cfg;
    fy_diag_cfg_default(&diag_cfg);
    diag_cfg.fp = NULL;
    diag_cfg.colorize = false;
    struct fy_diag *diag = fy_diag_create(&diag_cfg);
    if (!diag)
        return err_set(e, ERR_NOMEM, "%s: out of memory while reading it", name);
    fy_diag_set_collect_errors(diag, true);
    const struct fy_parse_cfg cfg = {
        .flags = FYPCF_QUIET | FYPCF_COLLECT_DIAG | FYPCF_DEFAULT_VERSION_1_2, .diag = diag};
    struct fy_parser *parser = fy_parser_create(&cfg);
    if (!parser || fy_parser_set_string(parser, text.n ? text.p : "", text.n) != 0)
        rc = no_memory(&b);
    else
        rc = parse_document(parser, &b, out);
    if (parser)
        fy_parser_destroy(parser);
    fy_diag_destroy(diag);
    return rc;
}
