"""The fully observed sequential ddCRP over words, in closed form: docs/math/ddcrp.md (9), (10).

Token i links to an earlier token j with probability f(d_ij) / (alpha + F_i), or opens a table with
alpha / (alpha + F_i). A table shows one word, drawn from the base measure, and every token is the
word of its table. Only equal words can be linked, so the links are independent given the words, the
number of tables is a sum of independent Bernoulli variables, and nothing is approximated. As a
model of text it is a cache: recent words recur. Only the sequential process has this form (links to
later tokens could close cycles), and only with a known base measure.

Cost per token: exponential or no decay O(1); other decays of the index distance O(occurrences of
the word among the last W tokens); other decays of time O(tokens within the horizon). Memory O(V +
W).

References: Blei and Frazier, "Distance dependent Chinese restaurant processes", JMLR 2011; Bartunov
and Vetrov, "Variational inference for sequential distance dependent Chinese restaurant process",
ICML 2014.
"""
