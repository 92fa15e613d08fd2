/* common/io.h - whole files. Blocking; not for the I/O loop. */
#ifndef COMMON_IO_H
#define COMMON_IO_H

#include "common/buf.h"

/* Appends the file to out; its max_bytes is the limit (ERR_INVALID when larger). ERR_IO names path
 * and cause. */
MUST_USE int io_read_file(const char *path, struct buf *out, struct err *e);
/* Replaces the file by rename, so that readers see the old or the new content. Mode 0600. */
MUST_USE int io_write_file(const char *path, struct str content, struct err *e);
/* Creates the folder and its parents, mode 0700. An existing folder is fine. */
MUST_USE int io_make_dir(const char *path, struct err *e);
/* All bytes or an error; restarts after signals. */
MUST_USE int io_write_all(int fd, struct str bytes, struct err *e);

#endif
