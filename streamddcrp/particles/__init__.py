"""Sequential Monte Carlo: the particle engine that the samplers of streams share.

Particles are structures of arrays, particle first. An arrival makes children of them, one for each
thing that may have happened; `merge_equal` joins those with one future, `optimal` keeps as many as
there are places without bias, `place_children` says which place becomes whose copy. The sum of all
children's weights is an unbiased factor of the evidence. Random numbers are functions of the seed,
the arrival, the particle and their purpose (`uniform`).

Methods that draw one child a particle reweight, and resample by `systematic` or `stratified` when
`effective_size` has fallen; `n_best` keeps a beam and gives up the evidence.

Everything is a kernel over arrays; the models stand in packages of their own.
"""

from streamddcrp.particles.kernels.copies import ancestors_of, place_children
from streamddcrp.particles.kernels.merge import merge_equal
from streamddcrp.particles.kernels.random import (
    add_wrapping,
    gamma,
    hash_of,
    normal,
    philox,
    poisson,
    uniform,
)
from streamddcrp.particles.kernels.resample import (
    effective_size,
    n_best,
    optimal,
    stratified,
    systematic,
)

__all__ = [
    "add_wrapping",
    "ancestors_of",
    "effective_size",
    "gamma",
    "hash_of",
    "merge_equal",
    "n_best",
    "normal",
    "optimal",
    "philox",
    "place_children",
    "poisson",
    "stratified",
    "systematic",
    "uniform",
]
