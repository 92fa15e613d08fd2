/* Asks /api/status until the first engine has applied the document in force. */
#include "controller/cli/settle.h"

#include "common/clock.h"
#include "controller/cli/print.h"

enum { LOOK_EVERY_MS = 50 };

static bool has_applied(struct cli *c)
{
    json_t *status = NULL;

    if (cli_get(c, "/api/status", &status, NULL) != ERR_OK)
        return false;
    const json_t *engine = json_array_get(json_object_get(status, "engines"), 0);
    int64_t applied = json_int_of(engine, "desired_version");
    bool is_done = applied > 0 && applied == json_int_of(status, "desired_version");
    json_decref(status);
    return is_done;
}

int settle_wait(struct cli *c, struct supervisor *s, uint32_t seconds, struct err *e)
{
    struct mono from = clock_mono(&CLOCK_REAL);

    while (!has_applied(c)) {
        int rc = supervisor_run(s, LOOK_EVERY_MS, e);
        if (rc != ERR_OK)
            return rc;
        if (mono_since_us(from, clock_mono(&CLOCK_REAL)) > seconds * UINT64_C(1000000))
            return err_set(e, ERR_TIMEOUT, "the engine has not applied the controller's document");
    }
    return ERR_OK;
}
