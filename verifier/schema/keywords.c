/* Every keyword of draft 2020-12: how its value is read, what it asks of a value. Rules run in
 * this order: cheap assertions first, unevaluated keywords after all that may mark children. */
#include "verifier/schema/node.h"

const struct keyword KEYWORDS[] = {
    /* core: handled before the rules, by locate_enter and locate_anchors, or only there to be
     * referred to */
    {"$id", compile_text, .run = NULL},
    {"$schema", compile_dialect, .run = NULL},
    {"$anchor", compile_text, .run = NULL},
    {"$dynamicAnchor", compile_text, .run = NULL},
    {"$comment", compile_text, .run = NULL},
    {"$defs", compile_map, .run = NULL},
    {"definitions", compile_map, .run = NULL}, /* appendix A of the validation draft: still read */
    {"$vocabulary", compile_refused, .run = NULL},
    /* annotations */
    {"title", compile_text, .run = NULL},
    {"description", compile_text, .run = NULL},
    {"default", compile_any, .run = NULL},
    {"examples", compile_list, .run = NULL},
    {"deprecated", compile_flag, .run = NULL},
    {"readOnly", compile_flag, .run = NULL},
    {"writeOnly", compile_flag, .run = NULL},
    {"contentEncoding", compile_text, .run = NULL},
    {"contentMediaType", compile_text, .run = NULL},
    {"contentSchema", compile_one, .run = NULL},
    /* earlier drafts */
    {"$recursiveRef", compile_refused, .run = NULL},
    {"$recursiveAnchor", compile_refused, .run = NULL},
    {"dependencies", compile_refused, .run = NULL},
    {"additionalItems", compile_refused, .run = NULL},
    /* assertions */
    {"type", compile_types, .run = run_type},
    {"enum", compile_list, .run = run_enum},
    {"const", compile_any, .run = run_const},
    {"multipleOf", compile_divisor, .run = run_multiple_of},
    {"maximum", compile_number, .run = run_maximum},
    {"exclusiveMaximum", compile_number, .run = run_exclusive_maximum},
    {"minimum", compile_number, .run = run_minimum},
    {"exclusiveMinimum", compile_number, .run = run_exclusive_minimum},
    {"maxLength", compile_count, .run = run_max_length},
    {"minLength", compile_count, .run = run_min_length},
    {"pattern", compile_pattern, .run = run_pattern},
    {"maxItems", compile_count, .run = run_max_items},
    {"minItems", compile_count, .run = run_min_items},
    {"maxProperties", compile_count, .run = run_max_properties},
    {"minProperties", compile_count, .run = run_min_properties},
    {"required", compile_names, .run = run_required},
    {"dependentRequired", compile_name_lists, .run = run_dependent_required},
    {"format", compile_format, .run = run_format},
    {"uniqueItems", compile_flag, .run = run_unique_items},
    /* applicators on the same value */
    {"$ref", compile_reference, .run = run_reference, .is_in_place = true},
    {"$dynamicRef", compile_reference, .run = run_dynamic_reference, .is_in_place = true},
    {"allOf", compile_many, .run = run_all_of, .is_in_place = true},
    {"anyOf", compile_many, .run = run_any_of, .is_in_place = true, .names_failures = true},
    {"oneOf", compile_many, .run = run_one_of, .is_in_place = true, .names_failures = true},
    {"not", compile_one, .run = run_not, .is_in_place = true, .names_failures = true},
    {"if", compile_one, .run = run_if, .sibling = {"then", "else"}, .is_in_place = true},
    {"then", compile_one, .run = NULL, .is_in_place = true},
    {"else", compile_one, .run = NULL, .is_in_place = true},
    {"dependentSchemas", compile_map, .run = run_dependent_schemas, .is_in_place = true},
    /* applicators on children */
    {"prefixItems", compile_many, .run = run_prefix_items},
    {"items", compile_one, .run = run_items, .sibling = {"prefixItems"}},
    {"contains", compile_one, .run = run_contains, .sibling = {"minContains", "maxContains"},
     .names_failures = true},
    {"minContains", compile_count, .run = NULL},
    {"maxContains", compile_count, .run = NULL},
    {"properties", compile_map, .run = run_properties},
    {"patternProperties", compile_patterns, .run = run_pattern_properties},
    {"additionalProperties", compile_one, .run = run_additional_properties,
     .sibling = {"properties", "patternProperties"}},
    {"propertyNames", compile_one, .run = run_property_names, .names_failures = true},
    {"unevaluatedItems", compile_one, .run = run_unevaluated},
    {"unevaluatedProperties", compile_one, .run = run_unevaluated},
};
const size_t KEYWORDS_N = sizeof KEYWORDS / sizeof KEYWORDS[0];
