"""Follow a process: regimes, births, returns and surprise as each point arrives.

Run: python examples/follow_a_process.py
"""

import numpy as np

from streamddcrp import SeqDDCRP


def main() -> None:
    rng = np.random.default_rng(0)
    # A machine that idles, runs hot, idles again, and once does something new.
    level = np.repeat([20.0, 65.0, 20.0, 65.0, 90.0], 120)
    temperature = level + rng.normal(0.0, 1.5, len(level))

    model = SeqDDCRP(likelihood=("normal_gamma", 40.0, 0.01, 1.5, 3.0))
    for minute, value in enumerate(temperature):
        x = {"temperature": value}
        surprise = model.score_one(x)
        model.learn_one(x)
        for event in model.events():
            print(f"minute {minute}: {event.kind} of regime {event.label}, surprise {surprise:.1f}")
    for table in model.summary().to_pylist():
        print(table)
    print(f"log evidence is at least {model.bound:.1f}")


if __name__ == "__main__":
    main()
