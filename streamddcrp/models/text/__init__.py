"""Stories in a stream of short texts: a sequential ddCRP mixture with Pitman-Yor tables.

The equations are in docs/math/texts.md. A document joins a table by the decayed number of its
documents times the probability of its distinct words under the table's Pitman-Yor urn, over a base
measure that counts a word once per table, so that common words say little.

A document takes the best table on arrival (`kernels.arrival.place`) and is visited again at ages
56, 222 and 500 (``lag``), when later documents help, too (`visit`); then its label is final
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
there are as many as live tables have distinct words. The scores are predictive densities of greedy
decisions, not a bound.

References: Blei and Frazier 2011, distance dependent Chinese restaurant processes; Teh 2006, a
hierarchical Bayesian language model based on Pitman-Yor processes.
"""
