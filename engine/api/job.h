/* engine/api/job.h - one generation request from admission to its last record; for engine/api only.
 *
 * A job owns an arena with everything that its generations, its reply and its records point to. It
 * ends when every choice has ended and its record is stored: then the reply, or the stream's last
 * chunks, go out and the job is freed. A client that leaves only cancels the generations. */
#ifndef ENGINE_API_JOB_H
#define ENGINE_API_JOB_H

#include "engine/api/api.h"
#include "engine/api/metrics.h"
#include "engine/api/reader.h"
#include "engine/api/request.h"
#include "engine/text/detok.h"

struct job;

struct choice {
    struct job *job;
    uint32_t index;
    struct gen_handle handle;
    struct detok detok;
    uint32_t n_token, max_token;
    int32_t *token;      /* [max_token] */
    float *logprob;      /* [max_token] */
    struct gen_top *top; /* [max_token, n_top], NULL without */
    bool is_open;        /* detok is initialised */
    bool is_cut;         /* a stop string was met, or text ran out of room */
    const char *finish;  /* as recorded */
    struct str tail;     /* text of the last chunk */
    struct mono last_token;
    struct output output;
};

struct job {
    struct job *next, **back;
    struct api *api;
    struct http_request *http; /* NULL when detached */
    struct arena arena;
    struct api_request request;
    struct str id;
    struct route_table *table;
    struct route_choice route;
    struct params effective;
    int32_t *prompt;
    uint32_t n_prompt;
    struct choice *choice; /* [request.n] */
    uint32_t n_submitted, n_ended, n_done;
    struct str body;       /* of the HTTP request, as long as that lives */
    struct err read_error; /* of job_read on the reader thread */
    bool is_reading;       /* on the reader thread: hands off but for is_gone and error */
    bool is_refused;       /* answered with an error; waits for its generations to end */
    bool is_streaming, is_gone;
    struct mono admitted, last_sent;
    struct wall created;
    struct arm_metrics metrics;
    const char *code; /* of an error reply */
    struct err error; /* of the first generation that failed */
    struct buf chunk; /* the text being sent */
};

struct feedback_post {
    struct feedback_post *next, **back;
    struct http_request *http;
    struct arena arena;
    struct feedback feedback;
};

struct api {
    struct api_config config;
    struct route_table *table;
    struct job *jobs;
    struct feedback_post *posts;
    struct reader *reader;
    struct http_watch *keep_alive; /* runs while there are jobs */
    uint32_t n_jobs;
    uint64_t next_admission;
    size_t longest_token; /* bytes, of the vocabulary */
    bool is_admitting, is_device_lost;
    struct api_metrics metrics;
};

/* pages.c */
void api_keep_alive(struct api *a);
/* admit.c */
void api_on_chat(struct http_request *r, void *api);
void api_on_completion(struct http_request *r, void *api);
void job_free(struct job *j);
void job_on_read(void *job); /* goes on where the reader thread stopped */
/* prompt.c: body to request and tokens. Any thread, one at a time for each job. */
int job_read(struct job *j, struct err *e);
int job_no_memory(struct err *e);
/* finish.c */
void job_on_event(void *choice, const struct gen_event *ev);
void job_cancel(struct job *j);
bool job_send(struct job *j);
/* reply.c: what the server says in one piece */
void api_reply_error(struct http_request *r, int status, const struct err *e, const char *code);
void api_put_error(struct buf *out, int status, struct str message, struct str param,
                   const char *code);
/* A new id, always our own: a client that used one twice would make two scores look like one. */
struct str api_request_id(const char *prefix, struct arena *a);
/* Answers with the client's own X-Request-Id when it is sane, for its logs; else with id. */
void api_put_request_id(struct http_request *r, struct str id);
bool api_has_key(const struct api *a, struct http_request *r);
void api_reply_no_key(struct http_request *r);
/* render.c: JSON of replies and chunks, appended to job.chunk */
void render_first(struct job *j, const struct choice *c);
void render_piece(struct job *j, const struct choice *c, struct str piece, bool has_token);
void render_last(struct job *j, const struct choice *c);
void render_usage(struct job *j);
void render_stream_error(struct job *j);
void render_body(struct job *j);

#endif
