/* controller/api.h - the controller's HTTP API (API.md), metrics and the dashboard.
 *
 * Reads come from committed rows through a connection of its own; changes go to the writer as
 * commands and are answered after their commit. HTTP loop thread. */
#ifndef CONTROLLER_API_H
#define CONTROLLER_API_H

#include "common/http_server.h"
#include "controller/loop.h"

struct api_options {
    struct http_server *server;
    struct loop *loop;
    struct board *board;
    struct metrics *metrics;
    const struct milepost_config *config;
    const char *database;
    struct str admin_key; /* empty = POST needs no key */
};

struct api;
/* Opens the database for reading and adds the routes to the server. */
MUST_USE int api_open(struct api **out, const struct api_options *o, struct err *e);
void api_close(struct api *a); /* after the server has ended */
/* The error body of this API, for the server's own errors too. */
void api_error_body(int status, const char *message, struct buf *out);

#endif
