"""Variational Bayes for the sequential distance-dependent CRP mixture, batch and streaming.

Model: customer i links to an earlier customer j with probability f(d_ij) / S_i or opens a table
with probability alpha / S_i; customers that reach each other share the parameter of a conjugate
exponential family. Bound, with A_ij = q(c_i = j), s_i = q(c_i = i), Z = (I - A)^{-1} diag(s):

    ELBO = sum_i [sum_j A_ij (log p_ij - log A_ij) + s_i (log p_ii - log s_i)]
         + sum_k log m(sum_i Z_ik t(x_i)).

Batch: O(N W (P + K)) a sweep. Streaming: O((L + T) K) an arrival plus its share of the sweeps,
memory O(L (L + T) + (L + T) K + K P), whatever the length of the stream.

References: Bartunov and Vetrov, "Variational inference for sequential distance dependent Chinese
restaurant process", ICML 2014; Blei and Frazier, "Distance dependent Chinese restaurant
processes", JMLR 2011.
"""
