"""Collapsed Gibbs sampling of the distance dependent CRP mixture, sequential and general.

Model: customer i links to customer j with probability f(d_ij) / (alpha + F_i) or to itself with
probability alpha / (alpha + F_i), F_i = sum_j f(d_ij); customers that links connect, in either
direction, sit at one table and share the parameter of a conjugate exponential family:

    p(x, c) = prod_i A_{i, c_i} prod_k m(S_k),

m the marginal likelihood of the rows of a table. Sequential: links go back in the order of arrival.
General: any link, as between the vertices of a graph.

A sweep draws every link once. Where general links have few candidates, it also moves N / 4 whole
branches, in which any customer may hold the link that joins the branch to a table
(`kernels.branch`). With W
candidates per customer it costs O(N (W + P + K L)): P numbers of statistics, K tables among the
candidates, L for the marginal likelihood of one; general links O(|S| (P + W)) more for each
customer, |S| those below it. Memory is O(N P) and the candidates, W numbers in all where distance
is the difference of arrival indices.

References
----------
D. M. Blei and P. I. Frazier. Distance dependent Chinese restaurant processes. JMLR 12, 2011.


Particle filter of the sequential distance-dependent CRP mixture, with fixed-lag rejuvenation.

Model: customer i links to an earlier customer j with weight f(d_ij) or to itself with weight alpha;
customers joined by links share the parameter of a conjugate exponential family. Each of P particles
holds one seating of all customers so far. An arrival x_n joins table k of particle q with weight

    w_k = s_k p(x_n | T_k),   s_k = sum_{j<n at k} f_nj,   w_new = alpha p(x_n),

drawn from the normalised weights; the particle's weight is multiplied by their sum over alpha +
sum_j f_nj, which does not depend on the draw. The product over arrivals of the weighted means of
these factors is an unbiased estimate of the evidence. Particles are resampled (systematically) when
the effective sample size falls below P / 2. With ``rejuvenate=L`` the links of the last L customers
are then resampled by the collapsed Gibbs sampler, which revises recent assignments and leaves the
estimate unbiased.

Memory does not grow with the stream. Customers stay in a ring while a link may reach them, or their
own may change: max(L, 1) + W of them where the decay ends after W. Under exponential and no decay
nothing ends, but weights of links fade alike, so each table carries the weight of all members that
have left the ring, and max(L, 1) customers suffice.

O(P (W + K D)) per arrival, K live tables; each resampled link costs as much again, and O(D) per
customer below it. Memory O(P (L + W + K D^2)) at most.

References: Blei and Frazier, "Distance dependent Chinese restaurant processes", JMLR 2011;
Fearnhead, "Particle filters for mixture models with an unknown number of components", Statistics
and Computing, 2004.
"""
