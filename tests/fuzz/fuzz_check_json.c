/* Extraction and grammar of JSON in model text: never past the end, what is found is valid, and
 * jansson agrees with the grammar. */
#include "verifier/text/json_find.h"
#include "verifier/text/json_scan.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

enum { COMPARED_MAX_BYTES = 4096 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct str text = {(const char *)data, size}, value;
    const char *why = NULL;
    if (json_find(text, size ? data[0] % 3 : 0, &value, &why) &&
        json_scan_text(value) != JSON_SCAN_OK)
        abort();
    bool is_valid = json_scan_text(text) == JSON_SCAN_OK;
    /* jansson has a smaller depth, and loses a NUL byte that follows a number. */
    if (size > COMPARED_MAX_BYTES || (size && memchr(data, 0, size)))
        return 0;
    json_error_t error;
    json_t *v = json_loadb(text.p, text.n, JSON_DECODE_ANY | JSON_ALLOW_NUL, &error);
    bool is_limit = !v && (json_error_code(&error) == json_error_numeric_overflow ||
                           json_error_code(&error) == json_error_stack_overflow ||
                           json_error_code(&error) == json_error_null_byte_in_key);
    json_decref(v);
    if (!is_limit && is_valid != (v != NULL))
        abort();
    return 0;
}
