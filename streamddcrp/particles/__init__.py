"""Sequential Monte Carlo: the particle engine shared by the stream samplers.

Particles are structures of arrays, indexed by particle first. An arrival gives them children, one
for each possible assignment. `merge_equal` merges those with the same future, `optimal` resamples
to the number of places without bias, and `place_children` assigns places to copies. The sum of all
children's weights is an unbiased factor of the evidence. Random numbers are functions of the seed,
the arrival, the particle and their purpose (`uniform`). `state` holds the shared arrays.

Methods that draw one child per particle reweight, and resample by `systematic` when
`effective_size` is small.
"""
