/* controller/policies/state_fields.c - what to store of each statistic.
 *
 * A field added to a struct in controller/stats must be added here; the codec's test compares whole
 * structs after a round trip and fails when one is forgotten. */
#include "controller/policies/state_codec.h"

#include "controller/stats/admission.h"
#include "controller/stats/betting.h"
#include "controller/stats/blocks.h"
#include "controller/stats/confseq.h"
#include "controller/stats/edetector.h"
#include "controller/stats/srm.h"
#include "controller/stats/units.h"

const struct state_field BETTING_FIELDS[] = {
    STATE_NUMBER(struct betting, log_w, STATE_F64),
    STATE_NUMBER(struct betting, log_w_max, STATE_F64),
    STATE_NUMBER(struct betting, n, STATE_F64),
    STATE_NUMBER(struct betting, s, STATE_F64),
    STATE_NUMBER(struct betting, q, STATE_F64),
    STATE_NUMBER(struct betting, steps, STATE_U64),
    STATE_END,
};

const struct state_field CONFSEQ_FIELDS[] = {
    STATE_NUMBER(struct confseq_eb, alpha, STATE_F64),
    STATE_NUMBER(struct confseq_eb, n, STATE_U64),
    STATE_NUMBER(struct confseq_eb, sum_x, STATE_F64),
    STATE_NUMBER(struct confseq_eb, sum_dev, STATE_F64),
    STATE_NUMBER(struct confseq_eb, sum_lambda, STATE_F64),
    STATE_NUMBER(struct confseq_eb, sum_lx, STATE_F64),
    STATE_NUMBER(struct confseq_eb, sum_vpsi, STATE_F64),
    STATE_END,
};

const struct state_field EDETECTOR_FIELDS[] = {
    STATE_NUMBER(struct edetector, m0, STATE_F64),
    STATE_NUMBERS(struct edetector, m, STATE_F64, EDETECTOR_GRID),
    STATE_NUMBER(struct edetector, steps, STATE_U64),
    STATE_NUMBER(struct edetector, quiet_steps, STATE_U64),
    STATE_NUMBER(struct edetector, kind, STATE_U32),
    STATE_END,
};

static const struct state_field VALUE_FIELDS[] = {
    STATE_NUMBERS(struct block_value, v, STATE_F64, BLOCKS_VALUES),
    STATE_END,
};

static const struct state_field BLOCK_STRATUM_FIELDS[] = {
    STATE_LIMITED(struct block_stratum, n_small, STATE_U32, BLOCKS_WAITING),
    STATE_LIMITED(struct block_stratum, n_large, STATE_U32, BLOCKS_WAITING),
    STATE_USED(struct block_stratum, small, BLOCKS_WAITING, n_small, VALUE_FIELDS),
    STATE_USED(struct block_stratum, large, BLOCKS_WAITING, n_large, VALUE_FIELDS),
    STATE_END,
};

const struct state_field BLOCKS_FIELDS[] = {
    STATE_SUBS(struct blocks, stratum, BLOCKS_STRATA, BLOCK_STRATUM_FIELDS),
    STATE_LIMITED(struct blocks, k, STATE_U32, BLOCKS_MAX_K),
    STATE_NUMBER(struct blocks, is_challenger_small, STATE_U32),
    STATE_NUMBER(struct blocks, n_blocks, STATE_U64),
    STATE_NUMBER(struct blocks, n_dropped, STATE_U64),
    STATE_END,
};

static const struct state_field SOURCE_FIELDS[] = {
    STATE_NUMBER(struct admission_source, id, STATE_U64),
    STATE_NUMBER(struct admission_source, next, STATE_U64),
    STATE_NUMBER(struct admission_source, rows, STATE_U64),
    STATE_NUMBER(struct admission_source, late_run, STATE_U32),
    STATE_NUMBER(struct admission_source, used, STATE_U32),
    STATE_END,
};

static const struct state_field UNIT_FIELDS[] = {
    STATE_NUMBER(struct unit_row, source, STATE_U64),
    STATE_NUMBER(struct unit_row, admission, STATE_U64),
    STATE_NUMBER(struct unit_row, row, STATE_U64),
    STATE_NUMBER(struct unit_row, committed_us, STATE_U64),
    STATE_NUMBER(struct unit_row, revision, STATE_U64),
    STATE_NUMBER(struct unit_row, experiment, STATE_U64),
    STATE_NUMBER(struct unit_row, checks, STATE_U64),
    STATE_NUMBER(struct unit_row, session, STATE_U64),
    STATE_NUMBER(struct unit_row, tokens, STATE_U64),
    STATE_NUMBER(struct unit_row, latency_us, STATE_U64),
    STATE_NUMBER(struct unit_row, propensity, STATE_F64),
    STATE_NUMBER(struct unit_row, reward, STATE_F64),
    STATE_NUMBER(struct unit_row, reward_b, STATE_F64),
    STATE_LIMITED(struct unit_row, stratum, STATE_U32, BLOCKS_STRATA - 1),
    STATE_NUMBER(struct unit_row, flags, STATE_U32),
    STATE_END,
};

const struct state_field ADMISSION_FIELDS[] = {
    STATE_SUBS(struct admission_queue, source, ADMISSION_SOURCES, SOURCE_FIELDS),
    STATE_LIMITED(struct admission_queue, n_held, STATE_U32, ADMISSION_HELD),
    STATE_USED(struct admission_queue, held, ADMISSION_HELD, n_held, UNIT_FIELDS),
    STATE_NUMBER(struct admission_queue, n_late, STATE_U64),
    STATE_NUMBER(struct admission_queue, n_duplicate, STATE_U64),
    STATE_NUMBER(struct admission_queue, n_missing, STATE_U64),
    STATE_END,
};

const struct state_field SRM_FIELDS[] = {
    STATE_NUMBER(struct srm, n, STATE_U64),
    STATE_NUMBER(struct srm, observed, STATE_F64),
    STATE_NUMBER(struct srm, expected, STATE_F64),
    STATE_NUMBER(struct srm, variance, STATE_F64),
    STATE_END,
};

static const struct state_field OPEN_UNIT_FIELDS[] = {
    STATE_NUMBER(struct unit, session, STATE_U64),
    STATE_NUMBER(struct unit, opened_us, STATE_U64),
    STATE_LIMITED(struct unit, is_challenger, STATE_U32, 1),
    STATE_LIMITED(struct unit, stratum, STATE_U32, BLOCKS_STRATA - 1),
    STATE_NUMBER(struct unit, propensity, STATE_F64),
    STATE_NUMBERS(struct unit, value, STATE_F64, UNIT_VALUES),
    STATE_NUMBERS(struct unit, n, STATE_U32, UNIT_VALUES),
    STATE_END,
};

static const struct state_field CLOSED_UNIT_FIELDS[] = {
    {"session", STATE_U64, 0, 0, 1, STATE_NO_COUNTER, NULL},
    STATE_END,
};

const struct state_field UNITS_FIELDS[] = {
    STATE_LIMITED(struct units, n_open, STATE_U32, UNITS_OPEN),
    STATE_USED(struct units, open, UNITS_OPEN, n_open, OPEN_UNIT_FIELDS),
    STATE_LIMITED(struct units, n_closed, STATE_U32, UNITS_REMEMBERED),
    STATE_USED(struct units, closed, UNITS_REMEMBERED, n_closed, CLOSED_UNIT_FIELDS),
    STATE_LIMITED(struct units, at, STATE_U32, UNITS_REMEMBERED - 1),
    STATE_NUMBER(struct units, n_excluded, STATE_U64),
    STATE_END,
};
