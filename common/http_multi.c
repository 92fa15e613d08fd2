/* Transfers on one multi handle; a finished one is taken out, its callback runs, its handle is
 * freed: connections outlive it in the multi handle's cache. One thread. */
#include "common/http_multi.h"

#include "common/http_transfer.h"

#include <stdlib.h>

enum { MAX_EXTRA = 1024, IDLE_CONNECTIONS = 64 };

struct job {
    struct job *next, **back;
    CURL *curl;
    struct http_call call;
    struct http_transfer transfer;
    struct http_result result;
    http_done_fn *done;
    void *ctx;
};

struct http_multi {
    CURLM *curl;
    struct job *jobs;
};

int http_multi_open(struct http_multi **out, struct err *e)
{
    *out = NULL;
    struct http_multi *m = calloc(1, sizeof *m);
    if (m && curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK)
        m->curl = curl_multi_init();
    if (!m || !m->curl) {
        free(m);
        return err_set(e, ERR_NOMEM, "HTTP client");
    }
    curl_multi_setopt(m->curl, CURLMOPT_MAXCONNECTS, (long)IDLE_CONNECTIONS);
    *out = m;
    return ERR_OK;
}

/* Takes the job out of the multi handle and tells its owner. */
static void finish(struct http_multi *m, struct job *j, CURLcode code, bool is_cancelled)
{
    struct err e = {0};
    curl_multi_remove_handle(m->curl, j->curl);
    int rc = http_transfer_end(&j->transfer, j->curl, code, &e);
    if (is_cancelled && rc != ERR_OK)
        rc = err_set(&e, ERR_CANCELLED, "%s: given up", j->call.url);
    *j->back = j->next;
    if (j->next)
        j->next->back = j->back;
    j->done(j->ctx, rc, &j->result, &e);
    http_result_free(&j->result);
    curl_easy_cleanup(j->curl);
    free(j);
}

void http_multi_close(struct http_multi *m)
{
    if (!m)
        return;
    while (m->jobs)
        finish(m, m->jobs, CURLE_ABORTED_BY_CALLBACK, true);
    curl_multi_cleanup(m->curl);
    free(m);
}

int http_multi_start(struct http_multi *m, const struct http_call *call, http_done_fn *done,
                     void *ctx, struct err *e)
{
    struct job *j = calloc(1, sizeof *j);
    if (j)
        j->curl = curl_easy_init();
    if (!j || !j->curl) {
        free(j);
        return err_set(e, ERR_NOMEM, "HTTP request");
    }
    *j = (struct job){.curl = j->curl, .call = *call, .done = done, .ctx = ctx};
    http_transfer_begin(&j->transfer, j->curl, &j->call, &j->result);
    curl_easy_setopt(j->curl, CURLOPT_PRIVATE, j);
    j->next = m->jobs;
    j->back = &m->jobs;
    if (j->next)
        j->next->back = &j->next;
    m->jobs = j;
    curl_multi_add_handle(m->curl, j->curl);
    return ERR_OK;
}

static bool finish_done(struct http_multi *m)
{
    bool some = false;
    int left;
    for (CURLMsg *msg; (msg = curl_multi_info_read(m->curl, &left)) != NULL;) {
        struct job *j = NULL;
        CURLcode code = msg->data.result; /* the message dies with the handle */
        if (msg->msg == CURLMSG_DONE &&
            curl_easy_getinfo(msg->easy_handle, CURLINFO_PRIVATE, (char **)&j) == CURLE_OK && j)
            finish(m, j, code, false);
        some = true;
    }
    return some;
}

void http_multi_poll(struct http_multi *m, const struct pollfd *fds, uint32_t n, int timeout_ms)
{
    struct curl_waitfd extra[MAX_EXTRA];
    int running;
    n = n < MAX_EXTRA ? n : MAX_EXTRA;
    for (uint32_t i = 0; i < n; i++) {
        short events = (short)((fds[i].events & POLLIN ? CURL_WAIT_POLLIN : 0) |
                               (fds[i].events & POLLOUT ? CURL_WAIT_POLLOUT : 0));
        extra[i] = (struct curl_waitfd){.fd = fds[i].fd, .events = events};
    }
    curl_multi_perform(m->curl, &running); /* begins what was added */
    if (finish_done(m))                    /* whoever waited for it may have more to start */
        timeout_ms = 0;
    curl_multi_poll(m->curl, extra, n, timeout_ms, NULL);
    curl_multi_perform(m->curl, &running);
    finish_done(m);
}

void http_multi_wake(struct http_multi *m)
{
    curl_multi_wakeup(m->curl);
}
