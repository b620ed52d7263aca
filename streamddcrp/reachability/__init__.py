"""Reachability of a sequential distance-dependent Chinese restaurant process.

In a sequential ddCRP customer i links to one earlier customer j with probability A_ij, or to itself
with probability s_i and opens a table; i sits where its path of links ends. With A strictly lower
triangular,

    R = (I - A)^-1 = sum_m A^m,        R_ij = P(the path from i passes through j),
    Z_ik = R_ik s_k = P(i sits at the table opened by k)

(Bartunov and Vetrov 2014, section 4.1). With prior links, R gives the prior expectations of the
number and sizes of tables; with links of a posterior approximation, those of q. `LaplacianInverse`
maintains R while links are added, changed and removed, without any inversion or division.

R is the inverse of the Laplacian of the graph of links, grounded at the self-links; hence the name.
This holds for the sequential process only: in the general ddCRP paths may run in cycles.

References
----------
S. Bartunov and D. Vetrov. Variational inference for sequential distance dependent Chinese
restaurant process. ICML 2014.
"""

from streamddcrp.reachability.laplacian import LaplacianInverse

__all__ = ["LaplacianInverse"]
