/* controller/policies/trial_tests.h - every test of a canary, one line each.
 *
 * A new guardrail is a value of a unit (trial.h), a line in the table and a test. Pure. */
#ifndef CONTROLLER_POLICIES_TRIAL_TESTS_H
#define CONTROLLER_POLICIES_TRIAL_TESTS_H

#include "controller/policies/trial.h"

enum test_role {
    ROLE_ROLLBACK, /* rolls back at 1/alpha */
    ROLE_GUARD,    /* rolls back at (number of guardrails)/alpha */
    ROLE_BLOCK,    /* a guardrail that says the evidence is missing, not that it is bad: it alerts
                      and stops steps and promotion, and never rolls back */
    ROLE_SUPPORT,  /* never acts alone */
    ROLE_PROMOTE   /* all that are required must pass */
};

struct test_spec {
    const char *name;
    enum test_role role;
    enum test_bet { PLAY_PAIRED, PLAY_RATIO } bet;
    int form; /* enum bet_form, or bet_ratio_form */
    enum trial_stream stream;
    enum unit_value value;
    size_t margin; /* offset of the tolerated loss, growth or ratio in policy_settings */
    double scale;  /* of the margin: 1/2 where the value is half of what it stands for */
};

extern const struct test_spec TRIAL_TESTS[TEST_COUNT];

bool test_is_guard(int i); /* ROLE_GUARD or ROLE_BLOCK */
/* ln(1/alpha) of a test of this route's experiment. */
double test_threshold(int i, const struct policy_settings *s, const struct arms *a);
/* False where the route has no use for it: no set B, no residual. */
bool test_is_used(int i, const struct policy_settings *s);
struct bet_stake test_stake(int i, const struct policy_settings *s, const struct block *b, int at);

#endif
