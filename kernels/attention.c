/* What backends say of KV caches they do not have. */
#include "kernels/attention.h"

int attention_refuse_kv(const char *backend, const struct kern_attn_shape *shape, struct err *e)
{
    static const char *const NAMES[] = {"f16", "int8", "bf16", "fp8"};
    if (shape->kv_type == KERN_KV_F16 || shape->kv_type == KERN_KV_INT8)
        return ERR_OK;
    return err_set(
        e, ERR_UNSUPPORTED,
        "backend %s: no key-value cache of %s: engine.kv_dtype f16 or int8, or engine.device "
        "cuda or simt",
        backend, NAMES[shape->kv_type]);
}
