"""Does a judge say the same when the answers change places?

All functions take the verdicts of one judge: a frame with a row per call and the columns `item_id, model_a, model_b,
repeat, order, verdict, gold`, as `safetyrepro.judge.verdicts` reads it. A comparison is one (item, pair of models,
repeat); everything is clustered by item.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from safetyrepro.analysis.mean import mean_score

if TYPE_CHECKING:
    import pandas as pd

Value = TypeVar("Value")
COMPARISON = ("item_id", "model_a", "model_b", "repeat")
_A_SHOWN = {("ab", "first"): "a", ("ab", "second"): "b", ("ba", "first"): "b", ("ba", "second"): "a"}


@dataclass(frozen=True)
class Share:
    """A share with its denominator and its interval by item."""

    count: int
    of: int
    share: float | None
    """In [0, 1]; None where the denominator is 0."""
    ci: tuple[float, float] | None
    bounds: tuple[float, float] | None
    """What the share would be if every unparsed verdict had gone the one way or the other."""


@dataclass(frozen=True)
class WinRate:
    """How often one model's answer wins against its opponent; a tie is half a win."""

    model_a: str
    model_b: str
    share: Share


@dataclass(frozen=True)
class Consistency:
    """One judge's verdicts under both orders."""

    items: int
    rows: int
    comparisons: int
    both_orders: int
    """Comparisons with a readable verdict in both orders."""
    consistent: Share
    """Same answer, or a tie, both times; of `both_orders`."""
    flips: Share
    """One answer in one order and the other in the other; of `both_orders`."""
    half: int
    """A tie in one order alone."""
    unparsed: Share
    first: Share
    """Decided verdicts for the answer shown first."""
    first_balanced: Share
    """The same over comparisons that were decided in both orders, where each answer stood first once."""
    ties: int
    accuracy: Share | None
    """Verdicts for the right answer, of all readable verdicts with a known right answer; a tie names none."""
    accuracy_both: Share | None
    """Right in both orders, of comparisons with a readable verdict in both."""
    wins: tuple[WinRate, ...]


def winner(order: str, verdict: str) -> str:
    """Which answer a verdict names: `a`, `b`, `tie`, or "" where there is none."""
    return verdict if verdict in ("tie", "") else _A_SHOWN[order, verdict]


def consistency(verdicts: pd.DataFrame) -> Consistency:
    """Order consistency, flips, share for the first answer, accuracy and win rates of one judge.

    Denominators: an unparsed verdict is a third state; it is in no share, and each share stands beside what it would be
    if all of them had gone either way.
    """
    rows = verdicts.assign(
        winner=[winner(o, v) for o, v in zip(verdicts["order"], verdicts["verdict"], strict=True)],
    )
    items = list(rows["item_id"])
    outcome = list(rows["winner"])
    shown_first = [v == "first" for v in rows["verdict"]]
    decided = [v in ("first", "second") for v in rows["verdict"]]
    unparsed = [v == "" for v in rows["verdict"]]
    wide = rows.pivot(index=list(COMPARISON), columns="order", values="winner")
    asked = [name in wide.columns for name in ("ab", "ba")]
    pairs = wide.dropna() if all(asked) else wide.iloc[:0]
    readable = pairs[(pairs != "").all(axis=1)]
    clusters = [str(key[0]) for key in readable.index]
    first, second = (list(readable[name]) if len(readable) else [] for name in ("ab", "ba"))
    same = [x == y for x, y in zip(first, second, strict=True)]
    flipped = [{x, y} == {"a", "b"} for x, y in zip(first, second, strict=True)]
    open_pairs = len(pairs) - len(readable)
    n_unparsed = sum(unparsed)
    return Consistency(
        items=len(set(items)),
        rows=len(rows),
        comparisons=len(wide),
        both_orders=len(readable),
        consistent=_share(same, clusters, open_pairs),
        flips=_share(flipped, clusters, open_pairs),
        half=len(readable) - sum(same) - sum(flipped),
        unparsed=_share(unparsed, items, 0),
        first=_share(_where(shown_first, decided), _where(items, decided), n_unparsed),
        first_balanced=_first_balanced(first, second, clusters),
        ties=outcome.count("tie"),
        accuracy=_accuracy(outcome, list(rows["gold"]), items),
        accuracy_both=_accuracy_both(rows, readable),
        wins=_win_rates(rows),
    )


def _share(hits: Sequence[bool], clusters: Sequence[str], open_rows: int) -> Share:
    result = mean_score([float(hit) for hit in hits], list(clusters))
    count, of = sum(hits), len(hits)
    whole = of + open_rows
    bounds = (count / whole, (count + open_rows) / whole) if whole else None
    return Share(count, of, result.score, result.ci, bounds)


def _where(values: Sequence[Value], kept: Sequence[bool]) -> list[Value]:
    return [value for value, keep in zip(values, kept, strict=True) if keep]


def _first_balanced(ab: Sequence[str], ba: Sequence[str], clusters: Sequence[str]) -> Share:
    hits: list[bool] = []
    inside: list[str] = []
    for one, other, cluster in zip(ab, ba, clusters, strict=True):
        if "tie" not in (one, other):
            hits += [one == "a", other == "b"]
            inside += [cluster, cluster]
    return _share(hits, inside, 0)


def _accuracy(outcome: Sequence[str], gold: Sequence[str], items: Sequence[str]) -> Share | None:
    known = [g != "" for g in gold]
    if not any(known):
        return None
    readable = [k and o != "" for k, o in zip(known, outcome, strict=True)]
    hits = [o == g for o, g, r in zip(outcome, gold, readable, strict=True) if r]
    return _share(hits, _where(items, readable), sum(known) - sum(readable))


def _accuracy_both(rows: pd.DataFrame, readable: pd.DataFrame) -> Share | None:
    golds = {tuple(row[name] for name in COMPARISON): row["gold"] for row in rows.to_dict("records")}
    hits, inside = [], []
    for key, ab, ba in zip(readable.index, readable.get("ab", ()), readable.get("ba", ()), strict=True):
        gold = golds[tuple(key)]
        if gold:
            hits.append(ab == gold and ba == gold)
            inside.append(str(key[0]))
    return _share(hits, inside, 0) if hits else None


def _win_rates(rows: pd.DataFrame) -> tuple[WinRate, ...]:
    points = {"a": 1.0, "tie": 0.5, "b": 0.0}
    found = []
    for (model_a, model_b), group in rows.groupby(["model_a", "model_b"], sort=True):
        readable = group[group["winner"] != ""]
        scores = [points[name] for name in readable["winner"]]
        result = mean_score(scores, [str(item) for item in readable["item_id"]])
        missing, whole = len(group) - len(readable), len(group)
        bounds = (sum(scores) / whole, (sum(scores) + missing) / whole)
        found.append(
            WinRate(str(model_a), str(model_b), Share(scores.count(1.0), len(scores), result.score, result.ci, bounds))
        )
    return tuple(found)
