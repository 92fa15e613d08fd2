/* controller/web.h - the dashboard's files, embedded in the program. */
#ifndef CONTROLLER_WEB_H
#define CONTROLLER_WEB_H

#include "common/http_server.h"

MUST_USE int web_add_routes(struct http_server *s, struct err *e);

#endif
