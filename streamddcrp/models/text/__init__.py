"""Stories in a stream of short texts: a sequential ddCRP mixture with Pitman-Yor tables.

Model. A document joins table k with prior weight F_k, the sum of exp(-(t - t_i) / a) over its
documents, or opens a table with weight alpha. Given the table its distinct words come from a
Pitman-Yor urn, P(w | k) = (max(c_kw - d, 0) + (B + d u_k) p_w) / (n_k + B), over a base measure
that counts a word once per table, p_w = (df_w + b) / (sum df + b V), so that common words say
little. The growth of the urn within a document of U words is taken at its midpoint,
delta = d (U - 1) / 2:

    s_k = log F_k / alpha + sum over shared words of log(1 + (c_kw - d) / ((B + d u_k + delta) p_w))
          + U log[(B + d u_k + delta) / (B + n_k + (U-1)/2) * (B + (U-1)/2) / (B + delta)]

against s = 0 for a new table.

Algorithm. A document takes the best table on arrival (`kernels.arrival.place`) and is visited again
at ages 56, 222 and 500 (``lag``), when later documents help, too (`visit`); then its label is final
(`leave`). At the last visit a table of at most two documents has to be better than the others by 3
nats. A document whose table was sure on arrival (odds of 10^3 to 1) is visited at the end only, one
whose table was certain (10^9 to 1) only if fewer than two others are still there. Tables that grow
are merged with a second choice of their last documents where the joint density gains, or split in
two where it gains by that, which moves many documents at once: the last four lags are remembered
for it (`kernels.moves`, `kernels.split`; for topics of long texts `kernels.topics`). Tables with
F < 1e-3 are retired, and words that neither a table nor the window holds are forgotten. The decay a
is given or a mixture of exponentials that is learned (`kernels.clock`). B follows the documents;
d = .6 and b = .25 are constants, but for topics b is B / 100 at least. There are no random numbers.

The inverted index (`kernels.tables`) holds for each word the tables with it, so that a document
costs the sum of df_w over its words, once to four times; words that are in a good part of the
tables are weighed by columns, several tables at a time. Memory: about 20 bytes a posting, of which
there are as many as live tables have distinct words.

References
----------
Blei and Frazier 2011, distance dependent Chinese restaurant processes; Teh 2006, a hierarchical
Bayesian language model based on Pitman-Yor processes. The scores are predictive densities of greedy
decisions, not a bound.
"""
