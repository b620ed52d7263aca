"""Templates of machine messages: lines that differ only in variable parts.

A line is cut at blanks and at = , ; ( ) [ ] " ' and its tokens are compared by position. Lines of
one template have the same number of tokens and the same first token without digits (as in Drain, He
et al. 2017). Tokens with digits are variable, and so are true and false. A line that differs from a
template in other tokens gets a template of its own, because "opened" is not "closed". Once `MANY`
templates differ from it in the same positions, these become variable in the oldest of them, which
stays. The others that it covers now go with its lines for a while, so that texts whose labels are
not final join its story.
"""

from streamddcrp.compilation import entry, leaf, uncounted

MOST_TOKENS = 62  # tokens compared; further ones are only counted
LEAST_SAME = 0.5  # of the fixed tokens, if others differ
MANY = 3
VARIABLE = 0  # replaces the hash of a variable token
NONE = -2  # for a line without tokens
FOLLOWED = 512  # lines for which a template goes with one that covers it
FIRST_HASH, PRIME, LAST_HASH = 0xCBF29CE48422, 0x100000001B3, 0xFFFFFFFFFFFFF
N_TEMPLATES, NEXT_NUMBER, N_LINES = 0, 1, 2  # in counts


def _hash(word):
    """Return the hash of a token, as `read_tokens` does."""
    code = FIRST_HASH
    for byte in word:
        code = ((code ^ byte) * PRIME) & LAST_HASH
    return code | 1


TRUE, FALSE = _hash(b"true"), _hash(b"false")


@leaf
def parts(byte):
    """Return whether a byte separates tokens."""
    return byte <= 32 or 39 <= byte <= 41 or byte in (34, 44, 59, 61, 91, 93)


@uncounted
def read_tokens(data, start, stop, tokens):
    """Write each token's hash, or `VARIABLE` with digits; return their number, and the key."""
    n, i, first = 0, start, 0
    while i < stop:
        while i < stop and parts(data[i]):
            i += 1
        if i == stop:
            break
        code, digits = FIRST_HASH, False
        while i < stop and not parts(data[i]):
            digits |= 48 <= data[i] <= 57
            code = ((code ^ int(data[i])) * PRIME) & LAST_HASH
            i += 1
        code |= 1
        if digits or code in (TRUE, FALSE):
            code = VARIABLE
        if first == 0:
            first = code
        if n < MOST_TOKENS:
            tokens[n] = code
        n += 1
    return n, ((first ^ (n * 0x9E3779B97F4A7)) & LAST_HASH) | 1


@uncounted
def place_of(known, key):
    """Return the place of a key in the hash table, or the hole for it."""
    mask = len(known.key) - 1
    at = (key >> 7) & mask
    while known.key[at] != 0 and known.key[at] != key:
        at = (at + 1) & mask
    return at


@uncounted
def differing(known, t, tokens, m):
    """Return the differing fixed tokens as bits, and the share of equal ones."""
    bits, same, fixed = 0, 0, 0
    for j in range(m):
        here = known.token[t, j]
        if here != VARIABLE and tokens[j] != VARIABLE:
            fixed += 1
            if here == tokens[j]:
                same += 1
            else:
                bits |= 1 << j
    return bits, (same + 1e-9) / (fixed + 1e-9)


@uncounted
def best_template(known, tokens, n, key):
    """Return the template of a line, or -1."""
    best, m, first = -1, min(n, MOST_TOKENS), known.head[place_of(known, key)]
    t = first
    while t >= 0:
        known.differs[t], part = differing(known, t, tokens, m)
        if known.length[t] != n or part < LEAST_SAME:
            known.differs[t] = -1
        elif known.differs[t] == 0:
            best = t  # the oldest, which comes last
        t = known.follow[t]
    if best >= 0:
        return best
    most, t = MANY - 1, first
    while t >= 0:
        if known.differs[t] > 0:
            u, count, oldest = first, 0, t
            while u >= 0:
                if known.differs[u] > 0 and known.differs[u] | known.differs[t] == known.differs[t]:
                    count += 1
                    oldest = u
                u = known.follow[u]
            if count > most:
                best, most = oldest, count
        t = known.follow[t]
    return best


@uncounted
def cover(known, t, m):
    """Note which templates have only lines that would all be lines of ``t`` now."""
    u = known.head[place_of(known, known.hash[t])]
    while u >= 0:
        covers = u != t and known.length[u] == known.length[t]
        for j in range(m):
            covers &= known.token[t, j] in (VARIABLE, known.token[u, j])
        if covers:
            known.cover[u] = known.number[t] + 1
        u = known.follow[u]


@uncounted
def list_covered(known, t, now, out):
    """Write the numbers of the newest templates that ``t`` covers, and `NONE` behind them."""
    u, n = known.head[place_of(known, known.hash[t])], 0
    while u >= 0 and n < len(out):
        if known.cover[u] == known.number[t] + 1 and now - known.last[u] < FOLLOWED:
            out[n] = known.number[u]
            n += 1
        u = known.follow[u]
    out[n:] = NONE


@entry
def find_templates(known, counts, data, offsets, learn, done, out):
    """Write the templates of lines ``done`` .. N - 1; stop when full, and return the next line.

    An unknown template has the number -1, or with ``learn`` the next one. Behind it stand those
    that it covers.
    """
    for row in range(done, len(out)):
        out[row, 1:] = NONE
        start, stop = offsets[row], offsets[row + 1]
        n, key = read_tokens(data, start, stop, known.read)
        if n == 0:
            out[row, 0] = NONE
            continue
        t = best_template(known, known.read, n, key)
        if t < 0 and learn:
            t = counts[N_TEMPLATES]
            if t == len(known.number):
                return row
            counts[N_TEMPLATES] += 1
            known.number[t] = counts[NEXT_NUMBER]
            counts[NEXT_NUMBER] += 1
            at = place_of(known, key)
            known.follow[t] = known.head[at] if known.key[at] != 0 else -1
            known.key[at], known.head[at] = key, t
            known.hash[t], known.length[t], known.cover[t] = key, n, 0
            known.shown_length[t] = min(stop - start, known.shown.shape[1])
            for j in range(known.shown_length[t]):
                known.shown[t, j] = data[start + j]
            for j in range(min(n, MOST_TOKENS)):
                known.token[t, j] = known.read[j]
        out[row, 0] = known.number[t] if t >= 0 else -1
        if learn and t >= 0:
            more = False
            for j in range(min(n, MOST_TOKENS)):
                if known.read[j] != known.token[t, j]:
                    more |= known.read[j] != VARIABLE != known.token[t, j]
                    known.token[t, j] = VARIABLE
            if more:
                cover(known, t, min(n, MOST_TOKENS))
            list_covered(known, t, counts[N_LINES], out[row, 1:])
            known.last[t] = counts[N_LINES]
            counts[N_LINES] += 1
    return len(out)
