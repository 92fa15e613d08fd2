/* Bias and penalties. Each token of the history is visited twice: once to count, once to clear, so
 * the cost follows the history, not the vocabulary. */
#include "engine/sample/penalties.h"

/* counts: low bits = times in the output; IN_PROMPT marks tokens seen in the prompt. */
#define IN_PROMPT 0x80000000u

bool penalties_needed(const struct sample_spec *spec)
{
    return spec->n_bias || sampler_has_penalties(spec->params);
}

static void penalise_one(const double *v, float *logit, uint32_t count)
{
    float repetition = (float)v[PARAM_REPETITION_PENALTY];
    *logit = *logit > 0 ? *logit / repetition : *logit * repetition;
    uint32_t times = count & ~IN_PROMPT;
    if (times)
        *logit -= (float)(v[PARAM_FREQUENCY_PENALTY] * times + v[PARAM_PRESENCE_PENALTY]);
}

static void visit(const struct sample_spec *spec, const int32_t *ids, uint32_t n, float *logits,
                  uint32_t n_vocab, uint32_t *counts)
{
    for (uint32_t i = 0; i < n; i++) {
        if ((uint32_t)ids[i] >= n_vocab || counts[ids[i]] == 0)
            continue;
        penalise_one(spec->params->v, &logits[ids[i]], counts[ids[i]]);
        counts[ids[i]] = 0; /* once per distinct token */
    }
}

void penalties_apply(const struct sample_spec *spec, float *logits, uint32_t n_vocab,
                     uint32_t *counts)
{
    for (uint32_t i = 0; i < spec->n_bias; i++)
        if ((uint32_t)spec->bias[i].token < n_vocab)
            logits[spec->bias[i].token] += spec->bias[i].bias;
    for (uint32_t i = 0; i < spec->n_prompt; i++)
        if ((uint32_t)spec->prompt[i] < n_vocab)
            counts[spec->prompt[i]] |= IN_PROMPT;
    for (uint32_t i = 0; i < spec->n_output; i++)
        if ((uint32_t)spec->output[i] < n_vocab)
            counts[spec->output[i]]++;
    visit(spec, spec->prompt, spec->n_prompt, logits, n_vocab, counts);
    visit(spec, spec->output, spec->n_output, logits, n_vocab, counts);
}
