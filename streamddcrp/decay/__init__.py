"""Decay functions: how the weight of a link falls with distance.

The weight of a link to a customer at distance d is f(d) >= 0, which does not increase with d, and
the weight of a new table is alpha:

    p(c_i = j) = f(d_ij) / S_i,   p(c_i = i) = alpha / S_i,   S_i = alpha + sum_{j<i} f(d_ij)

(Blei and Frazier 2011). Distance is the difference of time stamps or of arrival index.

============================  ==================================  ==========================
family                        f(d)                                in a stream
============================  ==================================  ==========================
``NoDecay()``                 1                                   the CRP; bounded memory
``Window(width)``             1 for d < width, else 0             memory: the window
``Exponential(scale)``        exp(-d / scale)                     bounded memory, exact
``Logistic(location, scale)`` 1 / (1 + exp((d-location)/scale))   window past the knee
``LinearWindow(width)``       max(1 - d / width, 0)               memory: the window
a function, sums, products    the caller's                        window, cut at `horizon`
============================  ==================================  ==========================

Evaluating W distances costs O(W) time and memory. ``horizon(eps)`` says how far back links matter.

References
----------
D. M. Blei and P. I. Frazier. Distance dependent Chinese restaurant processes. JMLR 12, 2011.
"""

from streamddcrp.decay.base import Decay, Product, Scaled, Sum
from streamddcrp.decay.families import (
    DecaySpec,
    Exponential,
    LinearWindow,
    Logistic,
    NoDecay,
    UserDecay,
    Window,
    decay_from_config,
    make_decay,
)

__all__ = [
    "Decay",
    "DecaySpec",
    "Exponential",
    "LinearWindow",
    "Logistic",
    "NoDecay",
    "Product",
    "Scaled",
    "Sum",
    "UserDecay",
    "Window",
    "decay_from_config",
    "make_decay",
]
