"""Lengths that programs are compiled for, and groups of things that run through the same one."""

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

Item = TypeVar("Item")

SMALLEST = 16


def bucket(length: int, smallest: int = SMALLEST) -> int:
    """The smallest of 16, 24, 32, 48, 64, 96, ... that holds `length`: at most a third is padding.

    So the number of compiled programs grows with the logarithm of the longest text.

    Args:
      smallest: a power of two to begin with instead of 16.
    """
    size = smallest
    while size < length:
        power_of_two = size & (size - 1) == 0
        size = max(size * 3 // 2, size + 1) if power_of_two else size * 4 // 3
    return size


def batches(
    items: Sequence[Item], shape: Callable[[Item], tuple[int, ...]], rows: int
) -> Iterator[list[int]]:
    """Row numbers of at most `rows` items that have the same `shape`, small shapes first.

    What an item is padded to depends on itself alone, not on who shares its batch; so does every
    bit of its result.
    """
    groups: dict[tuple[int, ...], list[int]] = {}
    for row, item in enumerate(items):
        groups.setdefault(shape(item), []).append(row)
    for key in sorted(groups):
        members = groups[key]
        for start in range(0, len(members), rows):
            yield members[start : start + rows]
