"""The distance dependent CRP mixture by sampling: Gibbs over whole data, particles along a stream.

The equations are in docs/math/ddcrp.md. Customer i links to customer j with weight f(d_ij), or to
itself with weight alpha. Customers connected by links, in either direction, sit at one table and
share the parameter of a conjugate family. Sequential links go back in arrival order; general links
are arbitrary, for example between the vertices of a graph.

Gibbs (`sample_ddcrp`): a sweep draws every link once. If general links have few candidates, it also
moves N / 4 whole branches, where any customer of the branch may hold the link to a table
(`kernels.branch`). With W candidates per customer it costs O(N (W + P + K L)) for P statistics, K
tables among the candidates and cost L of one marginal likelihood; general links cost O(|S| (P + W))
more for each customer, with |S| customers below it. Memory is O(N P) and the candidates, only W
numbers if distance is the difference of arrival indices.

Particles (`DDCRPSampler`): each of P particles holds one seating of all customers so far. They are
resampled (systematically) when the effective sample size falls below P / 2. Memory does not grow
with the stream: customers stay in a ring while a link may reach them, W of them if the decay ends
after W. Under exponential and no decay all link weights fade alike, so each table carries the
weight of all members that left the ring. O(P (W + K D)) per arrival with K live tables; memory O(P
(W + K D^2)) at most.

References: Blei and Frazier, "Distance dependent Chinese restaurant processes", JMLR 2011;
Fearnhead, "Particle filters for mixture models with an unknown number of components", Statistics
and Computing, 2004.
"""
