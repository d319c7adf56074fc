"""Guess the meaning of an argument from its name."""

from __future__ import annotations

import re

_DIM = re.compile(r"(^|_)(dims?|axis|axes)($|_)|(^|_)(dim|axis)\d*$")
# The size of a dim: `head_dim`, `rot_dim`.
_SIZE_OF_DIM = re.compile(
    r"(^|_)(head|rot|rotary|rope|nope|embed|embedding|emb|hidden|model|inner|latent|proj|ffn|mlp|vocab|kv|qk|"
    r"inputs?|outputs?)_dims?$"
)
# Positions in another tensor, and numbers of elements.
_POSITIONS = re.compile(
    r"(^|_)(ind(ex|ices|exes|ptr)?|idx[a-z]?|offsets?|positions?|pos|rows?|cols?|columns?|crow|edges?"
    r"|segments?|batch|lengths?|lens|(seq|seq_)lens?|ptr|rowptr|colptr|targets?|labels?|tokens?|ids?"
    r"|perm|permutation|slots?)\d*($|_)"
)
# The places of tokens in a sequence, or points in time, from which an op computes.
_PLACES_IN_SEQUENCE = re.compile(
    r"(^|_)(pos(itions?)?|time_?steps?|steps?|ticks?|frames?)(_ids?|_idx)?($|_)"
)
_LENGTHS = re.compile(r"(^|_)(lengths?|lens?|seqlens?|counts?|num_per)($|_)")
_BITS = re.compile(r"(^|_)(n|num_?)?bits?($|_)")
_OFFSETS = re.compile(r"(^|_)(offsets?|indptr|ptr|crow|rowptr|colptr|starts?|cu_seqlens?)($|_)")
# What an op keeps from one call to the next, or writes a result to.
_BUFFER = re.compile(
    r"(^|_)(states?|caches?|bufs?|buffers?|exp_avgs?|moments?|momentum|momentums|running|history|hist"
    r"|acc|accum|accumulators?|work|workspace|scratch|counts?|counters?|ema|shadows?|outs?|outputs?)\d*($|_)"
)
# The nodes that edges begin or end at.
_EDGE_ENDS = re.compile(
    r"(^|_)(src|dst|sources?|senders?|receivers?)(_(idx|index|indices|nodes?|ids?))?$"
)
# The columns of a row, or the neighbours of a node, which are those of others too.
_COLUMNS = re.compile(
    r"(^|_)(cols?|columns?)(_ind(ex|ices)?|_idx)?$|(^|_)(neighbou?rs?|nbrs?)(_idx)?$"
)
# Numbers that say yes or no, or count something, in floating point too.
_EXACT = re.compile(
    r"(^|_)(\w*masks?|valid|keep|kept|active|alive|done|dones|is|has|flags?|one_?hot|indicators?|visible"
    r"|present|observed|times?|steps?)\d*($|_)"
)
# Integers that are large in use, whatever a sample shows.
_LARGE_NUMBERS = re.compile(
    r"(^|_)(ids?|uids?|uuids?|keys?|hash(es)?|fingerprints?|stamps?|time(stamp)?s?|epochs?|nanos?|ns|ticks?"
    r"|serials?)\d*($|_)"
)
# How many places a table has, which an op maps other numbers to.
_TABLE_SIZE = re.compile(
    r"(^|_)(n|num)_(embeddings?|rows|slots|shards|cells|experts)($|_)"
    r"|(^|_)(buckets?|bins|table_size|hash_size|modulus|capacity)($|_)"
)
# How many places there are for positions, or positions for keys.
_COUNT_OF_PLACES = re.compile(
    r"(^|_)(n|num|nb|number_of|max)_\w+$|(^|_)(n|size|sizes|rows|cols|columns|nodes|vertices|vocab)$"
)
# How exact a result must be. What is less exact than in the sample need not agree with anything.
_TOLERANCE = re.compile(r"(^|_)([ar]?tol|tolerances?|accuracy)($|_)")
# How often a step is repeated, until a result no longer changes.
_ITERATIONS = re.compile(r"(^|_)((max|n|num)_?)?(iters?|iterations?|sweeps?|max_?steps)($|_)")
# Memory that an op may use as it likes.
_WORKSPACE = re.compile(r"(^|_)(work|work_?space|scratch|te?mp)\d*($|_)")
_COORDINATES = re.compile(r"(^|_)(coords?|coordinates?|voxels?|cells?|pixels?)$")
_SEED = re.compile(r"(^|_)(seeds?|rng|generator|philox|random|prng|key)($|_)")


def names_tolerance(name: str) -> bool:
    """Whether an argument of this name says how exact a result must be."""
    return bool(_TOLERANCE.search(name))


def names_iterations(name: str) -> bool:
    """Whether an argument of this name says how often a step is repeated."""
    return bool(_ITERATIONS.search(name))


def names_workspace(name: str) -> bool:
    """Whether an argument of this name is memory that an op may use as it likes."""
    return bool(_WORKSPACE.search(name))


def names_dims(name: str) -> bool:
    """Whether an argument of this name counts dims."""
    return bool(_DIM.search(name)) and not _SIZE_OF_DIM.search(name)


def names_positions(name: str) -> bool:
    """Whether an argument of this name holds positions, or numbers of elements."""
    return bool(_POSITIONS.search(name))


def names_places_in_sequence(name: str) -> bool:
    """Whether an argument of this name holds the places of tokens in a sequence, or points in time."""
    return bool(_PLACES_IN_SEQUENCE.search(name))


def names_edge_ends(name: str) -> bool:
    """Whether an argument of this name holds the nodes that edges begin or end at."""
    return bool(_EDGE_ENDS.search(name))


def names_columns(name: str) -> bool:
    """Whether an argument of this name holds the columns of rows, or the neighbours of nodes."""
    return bool(_COLUMNS.search(name))


def names_large_numbers(name: str) -> bool:
    """Whether integers of this name are large in use: ids, hashes, times."""
    return bool(_LARGE_NUMBERS.search(name))


def names_table_size(name: str) -> bool:
    """Whether an argument of this name says how many places a table has: `num_buckets`."""
    return bool(_TABLE_SIZE.search(name))


def names_counts_of_places(name: str) -> bool:
    """Whether a number of this name may say how many places there are for positions: `num_nodes`."""
    return bool(_COUNT_OF_PLACES.search(name))


def names_coordinates(name: str) -> bool:
    """Whether integers of this name are places in a grid."""
    return bool(_COORDINATES.search(name))


def names_seed(name: str) -> bool:
    """Whether an argument of this name is a seed or the state of a random generator."""
    return bool(_SEED.search(name))


def names_lengths(name: str) -> bool:
    """Whether an argument of this name holds numbers of elements that belong together."""
    return bool(_LENGTHS.search(name))


def names_bits(name: str) -> bool:
    """Whether an argument of this name counts bits, and so is not a size."""
    return bool(_BITS.search(name))


def names_offsets(name: str) -> bool:
    """Whether an argument of this name holds the offsets at which parts of another tensor begin."""
    return bool(_OFFSETS.search(name))


def names_buffer(name: str) -> bool:
    """Whether an argument of this name is a buffer: of state, or for results."""
    return bool(_BUFFER.search(name))


def names_exact(name: str) -> bool:
    """Whether numbers of this name may have to be exact: they say yes or no, are positions, or count."""
    return bool(_EXACT.search(name)) or names_positions(name) or names_lengths(name)
