"""Which ranks talk to each other when.

Holds `rounds`. In a round no rank takes part twice, and all pairs are alike: either all inside a
host or all between hosts, with as many at once on every host, so that their rates can be compared.
"""

import random
from collections.abc import Iterator, Sequence

Pair = tuple[int, int]
Round = tuple[Pair, ...]

EVERY_PAIR_UP_TO = 64
"""Ranks; above, a tournament of `MOST_ROUNDS` rounds between hosts is drawn by lot."""
MOST_ROUNDS = 63


def rounds(hosts: Sequence[str], *, seed: int = 0) -> tuple[Round, ...]:
    """The rounds for ranks on `hosts` (by rank): every pair once, or a tournament of pairs."""
    groups: dict[str, list[int]] = {}
    for rank, host in enumerate(hosts):
        groups.setdefault(host, []).append(rank)
    within = [matched for matched in _within(list(groups.values())) if matched]
    between = list(_between(list(groups.values())))
    if len(hosts) > EVERY_PAIR_UP_TO and len(between) > MOST_ROUNDS:
        drawn = random.Random(seed)  # noqa: S311 - the same lot on every rank, nothing secret
        between = drawn.sample(between, MOST_ROUNDS)
    return (*within, *between)


def circle(count: int) -> Iterator[Round]:
    """Everybody against everybody, each round all at once (the circle method).

    With an odd count one sits out each round.
    """
    seats = [*range(count), *([-1] if count % 2 else [])]
    half = len(seats) // 2
    for _ in range(len(seats) - 1):
        facing = zip(seats[:half], reversed(seats[half:]), strict=True)
        yield tuple((min(pair), max(pair)) for pair in facing if -1 not in pair)
        seats = [seats[0], seats[-1], *seats[1:-1]]


def _within(groups: list[list[int]]) -> Iterator[Round]:
    """Rounds inside hosts, all hosts at the same time."""
    games = [list(circle(len(group))) if len(group) > 1 else [] for group in groups]
    for number in range(max(map(len, games), default=0)):
        yield tuple(
            (group[a], group[b])
            for group, game in zip(groups, games, strict=True)
            if number < len(game)
            for a, b in game[number]
        )


def _between(groups: list[list[int]]) -> Iterator[Round]:
    """Rounds between hosts: when two hosts meet, all of the smaller one's ranks take part."""
    for meeting in circle(len(groups)):
        turns = max(max(len(groups[a]), len(groups[b])) for a, b in meeting) if meeting else 0
        for turn in range(turns):
            yield tuple(pair for a, b in meeting for pair in _turn(groups[a], groups[b], turn))


def _turn(one: list[int], other: list[int], turn: int) -> Iterator[Pair]:
    """The pairs of two hosts in one turn: over all turns each pair comes up once."""
    few, many = sorted((one, other), key=len)
    if turn < len(many):
        for place, rank in enumerate(few):
            against = many[(place + turn) % len(many)]
            yield min(rank, against), max(rank, against)
