"""The best partition of a few hundred unit vectors, by their products alone.

One vector after the other opens no story where those of a story are hardly nearer to each other
than to the rest: a pair says too little against the weight of a new story, but a set says more. So
a partition z of the vectors is looked for, of largest

    log p(z) = sum over its K sets of [log J + log Gamma(m)] + K log alpha - sum of log(alpha + i),

by coordinate ascent over single vectors and by merges, from two starts: one vector after the other,
and sets that are divided along their largest direction while the evidence rises. log J needs the
vectors' products only (`kernels.vectors`), so a sweep takes n^2 additions, whatever D. alpha moves
to its own maximum between two bounds. The evidence also says which rho: `choose`.

How much a dimension is worth follows from the products of vectors of different stories, whose
variance is one by the number of independent dimensions: `dimensions`.
"""

import math

from streamddcrp.compilation import leaf, uncounted
from streamddcrp.numerics import copy_first

ROUNDS, SWEEPS, POWERS = 4, 4, 20
LEAST_DIVIDED = 4  # vectors
CLIP = 1.5  # deviations above the mean from which products are those of one story, and by what a
CUT_MEAN, CUT_VARIANCE = 0.1388, 0.7725  # normal law that is cut there differs in mean and variance


@uncounted
def below(fit, n, least):
    """Return mean and variance of the products that are smaller than ``least``."""
    count, total, squares = 0, 0.0, 0.0
    for i in range(n):
        for j in range(i):
            c = fit.gram[i, j]
            if c <= least:
                count += 1
                total += c
                squares += c * c
    mean = total / max(count, 1)
    return mean, max(squares / max(count, 1) - mean * mean, 1e-12)


@uncounted
def dimensions(fit, n, D):
    """Return how many independent dimensions the products of ``n`` vectors speak of, at most D."""
    mean, _ = below(fit, n, math.inf)
    mean, variance = below(fit, n, mean)
    for _ in range(30):
        mean, variance = below(fit, n, mean + CLIP * math.sqrt(variance))
        variance /= CUT_VARIANCE
        mean += CUT_MEAN * math.sqrt(variance)
    return min(max(1.0 / variance, 1.0), D)


@uncounted
def prepare_sets(fit, n, half, rho):
    """Write log J = base + slope |S|^2 by the number of vectors, each of length 1."""
    sigma = (1.0 - rho) / rho
    for m in range(n + 1):
        rest = m * math.log1p(-rho) + math.log1p(m / sigma) + m / (1.0 - rho) - m
        fit.base[m], fit.slope[m] = -half * rest, half / ((m + sigma) * (1.0 - rho))


@leaf
def joint(fit, m, square):
    """Return log J of m vectors."""
    return fit.base[m] + fit.slope[m] * square


@uncounted
def put(fit, i, k, along, sign):
    """Add vector ``i`` to set ``k``, or take it out; ``along``: its product with the others."""
    fit.square[k] += sign * 2.0 * along + 1.0 if sign > 0.0 else -2.0 * along - 1.0
    fit.size[k] += int(sign)
    if sign > 0.0:
        fit.z[i] = k
    fit.joint[k] = joint(fit, fit.size[k], fit.square[k]) if fit.size[k] > 0 else 0.0


@uncounted
def place(fit, n, i, log_alpha):
    """Put a vector that is in no set into the best one or a new one; return it."""
    fit.along[:n] = 0.0
    empty = -1
    for j in range(n):
        if fit.z[j] >= 0:
            fit.along[fit.z[j]] += fit.gram[i, j]
    best, most = -1, log_alpha
    for k in range(n):
        m = fit.size[k]
        if m == 0:
            if empty < 0:
                empty = k
            continue
        odds = math.log(m) - fit.joint[k]
        odds += joint(fit, m + 1, fit.square[k] + 2.0 * fit.along[k] + 1.0)
        if odds > most:
            best, most = k, odds
    if best < 0:
        best = empty
    put(fit, i, best, fit.along[best], 1.0)
    return best


@uncounted
def sweep(fit, n, log_alpha):
    """Place each vector again; return how many moved."""
    moved = 0
    for i in range(n):
        old, along = fit.z[i], 0.0
        if old >= 0:
            for j in range(n):
                if fit.z[j] == old:
                    along += fit.gram[i, j]
            put(fit, i, old, along - 1.0, -1.0)
            fit.z[i] = -1
        alone = old >= 0 and fit.size[old] == 0
        moved += place(fit, n, i, log_alpha) != old and not alone
    return moved


@uncounted
def merge_sets(fit, n, log_alpha):
    """Merge pairs of sets as long as the evidence rises, the best for each set; return how many."""
    for k in range(n):
        if fit.size[k] > 0:
            fit.cross[k, :n] = 0.0
    for i in range(n):
        row = fit.cross[fit.z[i]]
        for j in range(n):
            row[fit.z[j]] += fit.gram[i, j]
    merged = 0
    for k in range(n):
        while fit.size[k] > 0:
            best, most, m = -1, 0.0, fit.size[k]
            for l in range(n):
                o = fit.size[l]
                if o == 0 or l == k:
                    continue
                gain = joint(fit, m + o, fit.square[k] + fit.square[l] + 2.0 * fit.cross[k, l])
                gain += math.lgamma(m + o) - math.lgamma(m) - math.lgamma(o) - log_alpha
                gain -= fit.joint[k] + fit.joint[l]
                if gain > most:
                    best, most = l, gain
            if best < 0:
                break
            fit.square[k] += fit.square[best] + 2.0 * fit.cross[k, best]
            fit.size[k] += fit.size[best]
            fit.size[best], fit.joint[best] = 0, 0.0
            fit.square[best] = 0.0
            fit.joint[k] = joint(fit, fit.size[k], fit.square[k])
            for l in range(n):
                fit.cross[k, l] += fit.cross[best, l]
            for l in range(n):
                fit.cross[l, k] = fit.cross[k, l]
            for i in range(n):
                if fit.z[i] == best:
                    fit.z[i] = k
            merged += 1
    return merged


@uncounted
def gather(fit, n):
    """Set what follows from ``fit.z``."""
    fit.size[:n] = 0
    fit.square[:n] = 0.0
    for i in range(n):
        k, along = fit.z[i], 0.0
        for j in range(n):
            if fit.z[j] == k:
                along += fit.gram[i, j]
        fit.size[k] += 1
        fit.square[k] += along
    for k in range(n):
        fit.joint[k] = joint(fit, fit.size[k], fit.square[k]) if fit.size[k] > 0 else 0.0


@uncounted
def halve(fit, m, log_alpha):
    """Divide the ``m`` vectors of ``fit.member`` by the sign of ``fit.v``; return the gain."""
    member, v, u = fit.member, fit.v, fit.u
    for a in range(m):
        v[a] = ((member[a] * 2654435761 + 12345) % 1021) / 510.0 - 1.0
    for _ in range(POWERS):  # the largest direction of what is left without the mean
        mean, length = 0.0, 0.0
        for a in range(m):
            mean += v[a] / m
        for a in range(m):
            v[a] -= mean
        for a in range(m):
            total, row = 0.0, fit.gram[member[a]]
            for b in range(m):
                total += row[member[b]] * v[b]
            u[a] = total
        for a in range(m):
            length += u[a] * u[a]
        if length < 1e-24:
            return -math.inf
        length = math.sqrt(length)
        for a in range(m):
            v[a] = u[a] / length
    mean = 0.0
    for a in range(m):
        mean += v[a] / m
    for a in range(m):
        v[a] = 1.0 if v[a] > mean else -1.0
    sizes0, sizes1, s0, s1 = 0, 0, 0.0, 0.0
    for turn in range(SWEEPS):
        sizes0, sizes1, s0, s1, moved = 0, 0, 0.0, 0.0, 0
        for a in range(m):
            row, own, other = fit.gram[member[a]], 0.0, 0.0
            for b in range(m):
                own += row[member[b]] * v[b]
                other += row[member[b]]
            u[a], fit.along[a] = 0.5 * (other + own), 0.5 * (other - own)
        for a in range(m):
            if v[a] > 0.0:
                sizes0, s0 = sizes0 + 1, s0 + u[a]
            else:
                sizes1, s1 = sizes1 + 1, s1 + fit.along[a]
        if sizes0 == 0 or sizes1 == 0:
            return -math.inf
        if turn == SWEEPS - 1:
            break
        for a in range(m):
            first = math.log(sizes0) + _more(fit, sizes0, s0, u[a], v[a] > 0.0)
            second = math.log(sizes1) + _more(fit, sizes1, s1, fit.along[a], v[a] <= 0.0)
            side = 1.0 if first > second else -1.0
            moved += side != v[a]
            v[a] = side
        if moved == 0:
            break
    gain = joint(fit, sizes0, s0) + joint(fit, sizes1, s1) + log_alpha
    gain += math.lgamma(sizes0) + math.lgamma(sizes1) - math.lgamma(m)
    return gain


@leaf
def _more(fit, m, square, along, own):
    """Return what one vector adds to log J of a set that may hold it."""
    if own:
        return joint(fit, m, square) - joint(fit, m - 1, square - 2.0 * along + 1.0)
    return joint(fit, m + 1, square + 2.0 * along + 1.0) - joint(fit, m, square)


@uncounted
def divide(fit, n, log_alpha):
    """Divide one set of all vectors, and its parts, as long as the evidence rises."""
    fit.z[:n] = 0
    gather(fit, n)
    K, k = 1, 0
    while k < K:
        m = 0
        for i in range(n):
            if fit.z[i] == k:
                fit.member[m] = i
                m += 1
        if m >= LEAST_DIVIDED and n > K:
            gain = halve(fit, m, log_alpha)
            if gain > joint(fit, m, fit.square[k]):
                for a in range(m):
                    if fit.v[a] < 0.0:
                        fit.z[fit.member[a]] = K
                gather(fit, n)
                K += 1
                continue
        k += 1


@uncounted
def log_evidence(fit, n, alpha):
    """Return log p(z), and the number of sets."""
    total, K = 0.0, 0
    for k in range(n):
        if fit.size[k] > 0:
            total += fit.joint[k] + math.lgamma(fit.size[k])
            K += 1
    for i in range(n):
        total -= math.log(alpha + i)
    return total + K * math.log(alpha), K


@uncounted
def best_alpha(n, K, alpha, least, most):
    """Return the alpha for which K sets of n vectors are expected, between bounds."""
    for _ in range(20):
        total = 0.0
        for i in range(n):
            total += 1.0 / (alpha + i)
        alpha = min(max(K / total, least), most)
    return alpha


@uncounted
def climb(fit, n, alpha, least, most):
    """Improve ``fit.z`` while the evidence rises; return it, and alpha."""
    for _ in range(ROUNDS):
        changed = 0
        for _ in range(SWEEPS):
            moved = sweep(fit, n, math.log(alpha))
            changed += moved
            if moved == 0:
                break
        changed += merge_sets(fit, n, math.log(alpha))
        _, K = log_evidence(fit, n, alpha)
        alpha = best_alpha(n, K, alpha, least, most)
        if changed == 0:
            break
    evidence, _ = log_evidence(fit, n, alpha)
    return evidence, alpha


@uncounted
def partition(fit, n, alpha, least, most):
    """Write the best partition for one rho to ``fit.z``; return its evidence, and alpha."""
    fit.z[:n] = -1
    fit.size[:n] = 0
    fit.square[:n] = 0.0
    fit.joint[:n] = 0.0
    for i in range(n):
        place(fit, n, i, math.log(alpha))
    first, alpha_first = climb(fit, n, alpha, least, most)
    copy_first(fit.kept, fit.z, n)
    divide(fit, n, math.log(alpha))
    second, alpha_second = climb(fit, n, alpha, least, most)
    if second > first:
        return second, alpha_second
    copy_first(fit.z, fit.kept, n)
    gather(fit, n)
    return first, alpha_first


@uncounted
def choose(rhos, fit, n, half, alpha, least, most):
    """Write the best partition of all, over ``rhos``, to ``fit.best``; return rho and alpha."""
    top, best, found = -math.inf, rhos[0], alpha
    for rho in rhos:
        prepare_sets(fit, n, half, rho)
        evidence, its = partition(fit, n, alpha, least, most)
        if evidence < top:
            break
        top, best, found = evidence, rho, its
        copy_first(fit.best, fit.z, n)
    return best, found
