/* engine/text/byte_map.h - the bijection between bytes and the code points that stand for them in a
 * byte-level BPE vocabulary (Radford et al. 2019, "Language Models are Unsupervised Multitask
 * Learners", encoder of the released GPT-2). Pure; any thread. */
#ifndef ENGINE_TEXT_BYTE_MAP_H
#define ENGINE_TEXT_BYTE_MAP_H

#include "common/str.h"

/* 0..255, or -1 for a code point that stands for no byte. */
int byte_map_from_cp(uint32_t cp);
/* Writes the bytes token text stands for (never more than text.n) and returns their number, or -1
 * when some code point stands for no byte or the text is not UTF-8. */
ptrdiff_t byte_map_decode(struct str text, char *out);

#endif
