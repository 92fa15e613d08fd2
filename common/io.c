/* Whole-file reading and writing with errors that name the path. */
#include "common/io.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int read_fd(int fd, const char *path, struct buf *out, struct err *e)
{
    char piece[16 * 1024];
    for (;;) {
        ssize_t n = read(fd, piece, sizeof piece);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return err_set_sys(e, ERR_IO, errno, "reading %s", path);
        if (n == 0)
            return ERR_OK;
        buf_put(out, piece, (size_t)n);
        if (out->failed)
            return err_set(e, ERR_INVALID, "%s: larger than the limit of %zu bytes", path,
                           out->max_bytes);
    }
}

int io_read_file(const char *path, struct buf *out, struct err *e)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return err_set_sys(e, ERR_IO, errno, "opening %s", path);
    int rc = read_fd(fd, path, out, e);
    close(fd);
    return rc;
}

int io_write_all(int fd, struct str bytes, struct err *e)
{
    while (bytes.n) {
        ssize_t n = write(fd, bytes.p, bytes.n);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return err_set_sys(e, ERR_IO, errno, "writing");
        bytes = str_slice(bytes, (size_t)n, bytes.n);
    }
    return ERR_OK;
}

static int write_and_sync(const char *path, struct str content, struct err *e)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0)
        return err_set_sys(e, ERR_IO, errno, "creating %s", path);
    int rc = io_write_all(fd, content, e);
    if (rc == ERR_OK && fsync(fd) != 0)
        rc = err_set_sys(e, ERR_IO, errno, "syncing");
    close(fd);
    return rc == ERR_OK ? rc : err_wrap(e, "%s", path);
}

int io_write_file(const char *path, struct str content, struct err *e)
{
    char *temporary = NULL;
    if (asprintf(&temporary, "%s.tmp.%d", path, (int)getpid()) < 0)
        return err_set(e, ERR_NOMEM, "path of %s", path);
    int rc = write_and_sync(temporary, content, e);
    if (rc == ERR_OK && rename(temporary, path) != 0)
        rc = err_set_sys(e, ERR_IO, errno, "renaming to %s", path);
    if (rc != ERR_OK)
        unlink(temporary);
    free(temporary);
    return rc;
}

int io_make_dir(const char *path, struct err *e)
{
    char part[4096];
    size_t n = strlen(path);
    if (n == 0 || n >= sizeof part)
        return err_set(e, ERR_INVALID, "folder name of %zu bytes: 1 to %zu are allowed", n,
                       sizeof part - 1);
    for (size_t i = 1; i <= n; i++) {
        if (path[i] != '/' && path[i] != '\0')
            continue;
        memcpy(part, path, i);
        part[i] = '\0';
        if (mkdir(part, 0700) != 0 && errno != EEXIST)
            return err_set_sys(e, ERR_IO, errno, "creating folder %s", part);
    }
    struct stat st;
    if (stat(path, &st) != 0 || !S_ISDIR(st.st_mode))
        return err_set(e, ERR_IO, "%s exists and is not a folder: choose another place", path);
    return ERR_OK;
}
