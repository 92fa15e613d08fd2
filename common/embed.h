/* common/embed.h - files put into the program at build time (common/embed.cmake). */
#ifndef COMMON_EMBED_H
#define COMMON_EMBED_H

#include <stddef.h>

struct embedded_file {
    const char *name; /* without folder */
    const char *p;    /* n bytes, then a NUL */
    size_t n;
};

#endif
