/* One assignment; a value that is no JSON is a text. Pure. */
#include "controller/cli/assignment.h"

#include "common/json.h"

#include <string.h>

int assignment_put(json_t *params, const char *text, struct err *e)
{
    const char *equals = strchr(text, '=');
    json_t *value = NULL, *into = params;
    struct str name = str_from(text);

    if (equals == NULL)
        return err_set(e, ERR_INVALID, "'%s' is not NAME=VALUE, such as temperature=0.5", text);
    name.n = (size_t)(equals - text);
    if (str_starts(name, STR("caps."))) {
        name = str_slice(name, 5, name.n);
        into = json_object_get(params, "caps");
        if (into == NULL) {
            into = json_object();
            json_object_set_new(params, "caps", into);
        }
    }
    struct str written = str_from(equals + 1);
    if (json_parse(written, JSON_ANY_VALUE, &value, NULL) != ERR_OK)
        value = json_str(written);
    if (value == NULL || json_object_setn_new(into, name.p, name.n, value) != 0)
        return err_set(e, ERR_INVALID, "'%s' cannot be read", text);
    return ERR_OK;
}
