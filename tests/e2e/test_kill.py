"""kill -9 of each process at random moments under load. MILEPOST_KILLS rounds (6), at most
MILEPOST_KILL_PAUSE seconds (1.5) apart, from MILEPOST_SEED (1); MILEPOST_E2E_MODEL=real uses the
real model."""

import os
import random
import time

from checks import everything_is_stored_once, replay_agrees, sequences_have_no_gap
from system import NAMES, SLOW, Load

ROUNDS = int(os.environ.get("MILEPOST_KILLS", "6"))
PAUSE_S = float(os.environ.get("MILEPOST_KILL_PAUSE", "1.5"))
SEED = int(os.environ.get("MILEPOST_SEED", "1"))


def test_kill_storm(make_system, any_model):
    rng = random.Random(SEED)
    system = make_system(any_model)
    system.start()
    killed = {name: 0 for name in NAMES}
    with Load(system, clients=8, seed=SEED) as load:
        for number in range(ROUNDS):
            time.sleep(rng.uniform(0.05, PAUSE_S) * SLOW)
            name = NAMES[number % 3] if number < 3 else rng.choice(NAMES)
            system.kill(name)
            killed[name] += 1
            time.sleep(rng.uniform(0, 0.7))
            system.start(name, wait=False)
            if rng.random() < 0.7:  # else the next kill may meet a process that is still starting
                system.wait_healthy(name)
        for name in NAMES:
            system.wait_healthy(name)
        time.sleep(1)
    print(f"killed {killed}; {len(load.answered)} answered, {load.broken} broken, "
          f"{len(load.refused)} refused")
    assert not load.hung, f"{len(load.hung)} clients got nothing within the deadline"
    assert not load.malformed, load.malformed[:3]
    assert len(load.answered) > 10
    everything_is_stored_once(system, load.answered, seconds=120)
    sequences_have_no_gap(system)
    print(replay_agrees(system))
