"""Names of the entries of the scalar arrays of the state, shared by kernels and Python."""

from streamddcrp.contract import N_OUTPUTS

# counts (int64)
N_SEEN = 0  # documents learned so far; the next one's index
NEXT_ID = 1  # of the next table
N_LIVE = 2  # live tables
N_SLOTS = 3  # slots of tables ever used; those not live are on the stack `Tables.free`
POSTINGS_END = 4  # postings from here on were never used
SUM_DF = 5  # number of postings
N_WORDS = 6  # words held by a table
TEXT_FIRST = 7  # absolute place, in the ring of words, of the oldest document's first word
TEXT_END = 8  # and of the end of the newest one's
SHOWN_FIRST = 9  # the same for the bytes that are kept of texts
SHOWN_END = 10
N_EVENTS = 11  # events since the start; the log holds the last of them
LAST = 12  # slot of the table of the document before, or -1
N_MERGES = 13  # the same for merges
N_ARCHIVED = 14  # retired tables since the start; the archive holds the last of them
LISTS_END = 15  # places of the lists of words from here on were never used
LISTS_FREE = 16  # the first unused piece of a list, or -1
SPLIT_DUE = 17  # slot of the table that is to be looked at after the next document, or -1
NEXT_LOOK = 18  # documents after which boilerplate is looked for again
REASSIGN = 19  # the first document that is to be assigned again, if it came before N_SEEN
NEWEST = 20  # the newest document that came
N_SPELLED = 21  # events whose words were spelled
NEXT_THEME = 22  # id of the next theme
N_COUNTS = 23

# sums (float64)
GROWTH = 0  # what a document that arrives now weighs; stored masses are in this unit
TOTAL = 1  # sum of the stored masses
CONCENTRATION = 2  # B
B_TABLES = 3  # numerator and denominator of B
B_TOKENS = 4
TIME = 5  # of the last document
ALPHA = 6  # weight of a new table, in documents that arrive now
SURPRISE = 7  # sum of the scores
START = 8  # time of the first document, where the decay is learned
UNIT = 9  # of scales in time: the mean time between the first documents; 0: not known yet
ASIDE = 10  # the part of all words that was boilerplate when last looked at
BACKGROUND = 11  # b of the background of vectors, 0: none
THEME_WEIGHT = 12  # gamma of themes as a part of all words of stories
GROUPS, STEPS = 6, 24  # of stories, by their longest silence so far, and of silences
SILENCES = (
    13  # for each group and step: how often one was seen to its end, or a document came; this
)
N_SUMS = SILENCES + 2 * GROUPS * STEPS

# vectors of G that follow in sums, where the decay is learned; see `kernels.clock`
GROWTHS = 0  # what a document that arrives now weighs at each scale
TOTALS = 1  # sums of the stored masses
MIXED = 2  # what they are multiplied by to give the masses now
SHARES = 3  # v_g, of sum one
SCALES = 4  # a_g, prior w_g, and whether they are of time; these do not change
PRIOR = 5
TIMED = 6
N_VECTORS = 7

LEAST_WORDS = 3000  # a language has so many, even if few have come
BITS = 4
CHUNK = 1 << BITS  # words whose factors are multiplied before products are scaled

MOST_THEMES = 64  # beyond, stories join the nearest one: their bands and names no one tells apart
LEAST_MERGED = 3  # documents of a table that may be merged
N_SEEDS = 2  # words from which a split begins
HISTORY = 4  # documents that may move in a split, in lags
MOST_TOKENS = 65536  # words of these
N_RIVALS = 4  # second choices that a table remembers
MOST_EVENTS = 8192  # in the log
N_SAID = 8  # words of an event

# arrays that may be too short for the next document
SHORT_POSTINGS = 1
SHORT_TABLES = 2
SHORT_TEXT = 4
SHORT_DOCUMENT = 8
SHORT_EVENTS = 16
SHORT_WORDS = 32
SHORT_ARCHIVE = 128
SHORT_SHOWN = 64

MOST_WORDS = 1 << 16  # different words of a document that count
SHOWN = 256  # bytes that are kept of a document; a power of two
MOST_ARCHIVED = 512  # tables in the archive
N_KEPT = 32  # words kept of each
N_EXAMPLES = 3  # documents kept of a table

# columns of the output of a step, behind those of `streamddcrp.contract`
FINAL_LABEL = N_OUTPUTS
THEME = N_OUTPUTS + 1  # of the document, and of the one whose label becomes final
FINAL_THEME = N_OUTPUTS + 2
N_TEXT_OUTPUTS = N_OUTPUTS + 3
