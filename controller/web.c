/* Static files with a strict policy: nothing inline, nothing from elsewhere. */
#include "controller/web.h"

#include "common/embed.h"

#include <string.h>

extern const struct embedded_file CONTROLLER_WEB[];
extern const size_t CONTROLLER_WEB_COUNT;

static const struct {
    const char *path, *file;
} PAGES[] = {
    {"/", "index.html"},           {"/style.css", "style.css"},
    {"/icon.svg", "icon.svg"},     {"/chart.min.js", "chart.min.js"},
    {"/app.js", "app.js"},         {"/ask.js", "ask.js"},
    {"/charts.js", "charts.js"},   {"/dialog.js", "dialog.js"},
    {"/dom.js", "dom.js"},         {"/experiments.js", "experiments.js"},
    {"/engines.js", "engines.js"}, {"/outputs.js", "outputs.js"},
    {"/route.js", "route.js"},     {"/speed.js", "speed.js"},
    {"/steer.js", "steer.js"},     {"/timeline.js", "timeline.js"},
};

static const struct {
    const char *ending, *type;
} TYPES[] = {
    {".html", "text/html; charset=utf-8"},
    {".js", "text/javascript; charset=utf-8"},
    {".css", "text/css; charset=utf-8"},
    {".svg", "image/svg+xml"},
};

static const char *type_of(const char *file)
{
    for (size_t i = 0; i < sizeof TYPES / sizeof *TYPES; i++)
        if (str_ends(str_from(file), str_from(TYPES[i].ending)))
            return TYPES[i].type;
    return "application/octet-stream";
}

static void get_page(struct http_request *r, void *ctx)
{
    size_t i = (size_t)(uintptr_t)ctx;
    http_reply_header(r, "Content-Security-Policy",
                      STR("default-src 'none'; script-src 'self'; style-src 'self'; "
                          "connect-src 'self'; img-src 'self'; base-uri 'none'; "
                          "form-action 'none'; frame-ancestors 'none'"));
    http_reply_header(r, "X-Content-Type-Options", STR("nosniff"));
    http_reply_header(r, "Referrer-Policy", STR("no-referrer"));
    http_reply_header(r, "Cache-Control", STR("no-cache"));
    for (size_t k = 0; k < CONTROLLER_WEB_COUNT; k++) {
        const struct embedded_file *f = &CONTROLLER_WEB[k];
        if (strcmp(f->name, PAGES[i].file) == 0) {
            http_reply(r, 200, type_of(f->name), (struct str){f->p, f->n});
            return;
        }
    }
    http_reply(r, 404, "text/plain", STR("this build has no such file\n"));
}

int web_add_routes(struct http_server *s, struct err *e)
{
    int rc = ERR_OK;
    for (size_t i = 0; rc == ERR_OK && i < sizeof PAGES / sizeof *PAGES; i++)
        rc = http_server_route(s, "GET", PAGES[i].path, get_page, (void *)(uintptr_t)i, e);
    return rc;
}
