"""The distance dependent CRP mixture by sampling: Gibbs over whole data, particles along a stream.

The equations are in docs/math/ddcrp.md. Customer i links to customer j with weight f(d_ij), or to
itself with weight alpha; customers that links connect, in either direction, sit at one table and
share the parameter of a conjugate family. Sequential links go back in the order of arrival; general
ones are any, as between the vertices of a graph.

Gibbs (`sample_ddcrp`): a sweep draws every link once. Where general links have few candidates, it
also moves N / 4 whole branches, in which any customer may hold the link that joins the branch to a
table (`kernels.branch`). With W candidates per customer it costs O(N (W + P + K L)): P numbers of
statistics, K tables among the candidates, L for the marginal likelihood of one; general links
O(|S| (P + W)) more for each customer, |S| those below it. Memory is O(N P) and the candidates, W
numbers in all where distance is the difference of arrival indices.

Particles (`DDCRPSampler`): each of P holds one seating of all customers so far. They are resampled
(systematically) when the effective sample size falls below P / 2. Memory does not grow with the
stream: customers stay in a ring while a link may reach them, W of them where the decay ends after
W. Under exponential and no decay weights of links fade alike, so each table carries the weight of
all members that have left the ring. O(P (W + K D)) per arrival, K live tables; memory
O(P (W + K D^2)) at most.

References: Blei and Frazier, "Distance dependent Chinese restaurant processes", JMLR 2011;
Fearnhead, "Particle filters for mixture models with an unknown number of components", Statistics
and Computing, 2004.
"""
