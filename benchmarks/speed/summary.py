"""What the rows say, in sentences: where scattering wins and where it loses."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

TRAIN = "train step"
NAMES = {
    "reference": "the reference",
    "gcn": "a GCN of three layers",
    "gin": "a GIN of three layers",
}
# Within so much of each other, two times are called equal: shared machines are not quieter.
EQUAL = 1.05


def sentences(result: Mapping[str, Any], works: Sequence[str] = (TRAIN, "inference")) -> list[str]:
    """A few sentences about a result as a dictionary, every number read off its rows."""
    rows = result["rows"]
    lines = []
    for field, suffix in (("ms", ""), ("replay_ms", ", both replayed")):
        for work in works:
            for rival, name in NAMES.items():
                lines += _against(rows, rival, name, work, field, suffix)
    lines += _bandwidth(rows)
    lines += _growth(rows)
    return lines


def _against(
    rows: list[dict[str, Any]], rival: str, name: str, work: str, field: str, suffix: str
) -> list[str]:
    """Wins and losses of scattering against one rival, over all cases that both ran."""
    own = {(r["group"], r["case"]): r for r in rows if r["work"] == work and r["method"] == "auto"}
    faster: list[str] = []
    equal: list[str] = []
    slower: list[str] = []
    for row in rows:
        place = (row["group"], row["case"])
        if row["work"] != work or row["method"] != rival or place not in own:
            continue
        if row["group"] == "growth" or not row[field] or not own[place][field]:
            continue
        ratio = row[field] / own[place][field]
        text = f"{row['case']} ({shown_ratio(ratio)})"
        (faster if ratio > EQUAL else slower if ratio < 1 / EQUAL else equal).append(text)
    parts = [
        f"{verb} on {'; '.join(cases)}"
        for verb, cases in (("faster", faster), ("as fast", equal), ("slower", slower))
        if cases
    ]
    return [f"{work} against {name}{suffix}: {', '.join(parts)}"] if parts else []


def shown_ratio(ratio: float) -> str:
    """How many times as fast.

    >>> shown_ratio(12.34), shown_ratio(0.5)
    ('12 ×', '0.50 ×')
    """
    return f"{ratio:.0f} ×" if ratio >= 10 else f"{ratio:.2f} ×"


def _bandwidth(rows: list[dict[str, Any]]) -> list[str]:
    shares = [
        f"{row['share']:.0%} on {row['case']} ({row['path']})"
        for row in rows
        if row["work"] == "diffusion" and row["method"] == "auto" and row["share"] is not None
    ]
    return [f"diffusion reaches, of the bandwidth of a copy: {'; '.join(shares)}"] * bool(shares)


def _growth(rows: list[dict[str, Any]]) -> list[str]:
    """Exponents of time and memory over the last doubling or so of each series."""
    series: dict[str, list[tuple[float, dict[str, Any]]]] = {}
    for row in rows:
        if row["group"] == "growth" and row["method"] == "auto":
            name, value = row["case"].split(" = ")
            series.setdefault(name, []).append((float(value.replace(",", "")), row))
    parts = []
    for name, points in series.items():
        texts = []
        for field, what in (("ms", "time"), ("memory_mb", "memory")):
            power = exponent([(size, row[field]) for size, row in points if row[field]])
            if power is not None:
                texts.append(f"{what} ^{power:.2f}")
        if texts:
            parts.append(f"{name}: {', '.join(texts)}")
    return [f"growth, as powers of the size: {'; '.join(parts)}"] if parts else []


def exponent(points: list[tuple[float, float]]) -> float | None:
    """The power by which values grow from the last but one size to the last.

    >>> exponent([(1, 5.0), (10, 10.0), (20, 20.0)])
    1.0
    """
    if len(points) < 2:
        return None
    (x0, y0), (x1, y1) = points[-2:]
    return math.log(y1 / y0) / math.log(x1 / x0)
