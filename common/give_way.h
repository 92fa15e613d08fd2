/* common/give_way.h - a thread that must not delay the others. */
#ifndef COMMON_GIVE_WAY_H
#define COMMON_GIVE_WAY_H

/* From now on the calling thread, and those it starts, get a small share of a busy core and leave
 * it as soon as another thread wakes up there (Linux 6.12 and later; the share on all). Cannot be
 * taken back. Best effort: no error. */
void give_way(void);

#endif
