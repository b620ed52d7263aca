"""The fully observed sequential ddCRP over words, in closed form.

Model: token i links to an earlier token j with probability f(d_ij) / (alpha + F_i), where
F_i = sum_{j<i} f(d_ij), or opens a table with probability alpha / (alpha + F_i); a table shows one
word, drawn from the base measure g, and every token is the word of its table. Links are possible
only between equal words, so each token's link can be summed out alone:

    D_i = alpha g(w_i) + sum_{j<i, w_j=w_i} f(d_ij)
    p(w_i | w_<i) = D_i / (alpha + F_i)
    p(c_i = j | w) = f(d_ij) / D_i where w_j = w_i,    p(c_i = i | w) = alpha g(w_i) / D_i

The links are independent given the words, so the number of tables is a sum of independent coins,
and nothing is approximated: neither sampling nor a variational bound has anything to add. As a
model of text it is a cache: recent words come again.

Only the sequential process has this form (links to later tokens could close cycles), and only with
a base measure that is known.

Cost per token: exponential or no decay O(1); other decays of the index distance O(occurrences of
the word among the last W tokens); other decays of time O(tokens within the horizon). Memory
O(V + W).

References: Blei and Frazier, "Distance dependent Chinese restaurant processes", JMLR 2011; Bartunov
and Vetrov, "Variational inference for sequential distance dependent Chinese restaurant process",
ICML 2014.
"""
