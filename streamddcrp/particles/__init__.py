"""Sequential Monte Carlo: the particle engine that the samplers of streams share.

Particles are structures of arrays, particle first. An arrival makes children of them, one for each
possible assignment. `merge_equal` merges those with the same future, `optimal` keeps as many as
there are places without bias, and `place_children` assigns the places of copies. The sum of all
children's weights is an unbiased factor of the evidence. Random numbers are functions of the seed,
the arrival, the particle and their purpose (`uniform`). `state` holds the arrays that models share.

Methods that draw one child per particle reweight, and resample by `systematic` when
`effective_size` is small.
"""
