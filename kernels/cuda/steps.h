/* kernels/cuda/steps.h - steps that the device has and the host has not waited for, at most two.
 *
 * What the host writes for a step stays until the device has read it, so each of the two has host
 * memory of its own; device memory is one, as the device takes step after step. */
#ifndef KERNELS_CUDA_STEPS_H
#define KERNELS_CUDA_STEPS_H

#include "kernels/cuda/dev.h"
#include "kernels/cuda/draw.h"

enum { MAX_UNDER_WAY = 2 };

struct kern_device;

struct step_slot {
    uint32_t *stage;      /* as step_stage.device */
    struct draw_row *row; /* these of draw_stage.on_device */
    struct kern_drawn *out;
    int32_t *history;
    struct dev_event *done;
    bool is_staged;           /* the copies of `stage` may still be under way */
    struct kern_drawn *drawn; /* the caller's [n_drawn], given at the end */
    uint32_t n_drawn;
};

struct device_steps {
    struct step_slot slot[MAX_UNDER_WAY];
    uint32_t n_started, n_finished;
};

/* The step that is being put together, or else was last. */
struct step_slot *device_slot(struct kern_device *d);
MUST_USE int device_steps_open(struct kern_device *d, struct err *e);
void device_steps_close(struct kern_device *d);

#endif
