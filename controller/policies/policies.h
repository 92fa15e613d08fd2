/* controller/policies/policies.h - the laws there are; registry.c puts them into one table. */
#ifndef CONTROLLER_POLICIES_POLICIES_H
#define CONTROLLER_POLICIES_POLICIES_H

#include "controller/policy.h"

extern const struct policy_ops POLICY_HOLD_OPS, POLICY_THRESHOLD_OPS, POLICY_CANARY_OPS;

#endif
