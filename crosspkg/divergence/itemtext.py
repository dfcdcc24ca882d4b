"""Changed words of a prompt told apart: fixed words that every item has, and words of an item's own."""

from __future__ import annotations

from collections import Counter

from safetyrepro.crosspkg.divergence.comparison import Comparison
from safetyrepro.crosspkg.divergence.hunks import Hunk
from safetyrepro.crosspkg.divergence.pair import Pair, is_place

FEWEST_ITEMS = 3
"""With fewer items nothing tells an item's own words from fixed ones."""


def word_hunks(pair: Pair) -> list[Hunk]:
    """Changed words outside shots and options."""
    return [h for h in pair.text_diff.hunks if not is_place(h.a + h.b) and (h.a or h.b)]


def own_changes(comparison: Comparison) -> dict[str, Hunk]:
    """Items whose own words differ: a change that is seen once, while most items have none of the kind.

    A change that comes back in another item is of the prompt's fixed words. Where those differ as well, only a
    replacement counts: words that one side adds may follow from the item (how many options it has) and still be fixed.
    """
    by_item = {pair.item_id: word_hunks(pair) for pair in comparison.pairs}
    if len(by_item) < FEWEST_ITEMS:
        return {}
    times = Counter(hunk for hunks in by_item.values() for hunk in set(hunks))
    fixed = any(count > 1 for count in times.values())
    own = {}
    for item, hunks in by_item.items():
        single = next((h for h in hunks if times[h] == 1 and ((h.a and h.b) or not fixed)), None)
        if single is not None:
            own[item] = single
    return own if 2 * len(own) <= len(by_item) else {}
