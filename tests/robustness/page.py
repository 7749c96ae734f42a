"""``python -m tests.robustness.page``: docs/reliability.md from the counts of the last runs."""

from __future__ import annotations

import json
import sys
from typing import Any

from legs.io import write_atomically
from tests.robustness.origin import FOLDER

PAGE = FOLDER.parents[1] / "reliability.md"
Known = dict[str, Any]

HEAD = """# Reliability

What happens to results when processes are killed, files are damaged, or input is hostile. The
programs named below count it and write to `docs/results/reliability/`; this page is generated from
those files by `python -m tests.robustness.page`.
"""
PROMISES = """## What is promised

- **Whole or absent.** Results, checkpoints, caches, models and pages are written under a temporary
  name, flushed to the disk and renamed; then the folder is flushed. A killed process leaves the
  file that was there before, or the new one. What it left half-written is removed by the next run.
- **Resumes.** `legs train`, `legs cv`, `legs reproduce` and `legs embed` into a folder resume when
  the same command is run again; the results are those of an undisturbed run, bit
  for bit on the same machine.
- **One writer.** A directory of a run is locked while it is written. A second process gets an
  error that names the first. The system frees the lock when the holder ends, however it ends.
- **Checksums.** Models, checkpoints, results of cross-validations and experiments, prepared data
  sets and splits hold SHA-256 digests of themselves. A file that changed on the disk is named and
  refused, never loaded in part. Files of versions that wrote no checksums are still read.
- **Full disks, missing permissions** end in one line that says so, and what was there stays.
- **No code from files.** Nothing is unpickled or evaluated: weights are safetensors, the rest is
  JSON and arrays of numbers. Sizes are bounded before memory is taken for them: archives by 8 GiB,
  and by 200 times their packed size where they are larger than 64 MiB. Archives are read in
  memory, never unpacked to the disk.
- **No network** unless a data set that is not there is asked for by name. Downloads are compared
  with published digests, or with the first download where nobody has published one.
- **Errors for people.** Every reader gives a data set, a model, or an error that says what is wrong
  and where; anything else counts as a crash above.
"""


def main() -> int:
    """Writes the page."""
    found = {path.stem: json.loads(path.read_text()) for path in sorted(FOLDER.glob("*.json"))}
    write_atomically(PAGE, page(found).encode())
    print(f"{PAGE} from {', '.join(found) or 'nothing'}")
    return 0


def page(found: dict[str, Known]) -> str:
    """The text of the page.

    Args:
        found: counts by the name of their file: ``fuzz``, ``reproductions``, ``kills``,
            ``flips``, ``soak``, ``embed``.
    """
    parts = [HEAD, _summary(found)]
    sections = (
        ("kills", _kills),
        ("embed", _embed),
        ("flips", _flips),
        ("fuzz", _fuzz),
        ("reproductions", _reproductions),
        ("soak", _soak),
    )
    for name, section in sections:
        if name in found:
            parts.append(section(found[name]))
    return "\n".join([*parts, PROMISES])


def _summary(found: dict[str, Known]) -> str:
    rows = [
        ("kills", "processes killed", "kills", "results lost", "lost"),
        ("flips", "bytes changed on disk", "tried", "silently accepted", "silent"),
        ("fuzz", "inputs to parsers", "inputs", "crashes", "crashes"),
        ("reproductions", "commands that once failed", "commands", "still wrong", "wrong"),
        ("embed", "rows embedded, with kills", "rows_in", "rows missing", "missing"),
        ("soak", "batches through scattering", "batches", "megabytes grown", "grown"),
    ]
    lines = [
        "| what was done | times | what came of it | times | date | run |",
        "|---|---:|---|---:|---|---|",
    ]
    for name, done, times, came, count in rows:
        known = found.get(name)
        if known is None:
            lines.append(f"| {done} | not run yet | {came} | | | |")
            continue
        label = known.get("label") or "long"
        date = str(known["date"])[:10]
        lines.append(
            f"| {done} | {known[times]:,} | {came} | {known[count]:,} | {date} | {label} |"
        )
    return "\n".join(lines) + "\n"


def _kills(known: Known) -> str:
    lines = [
        "## Kills\n",
        "Each command runs on small data and is ended by `kill -9` at random moments, then started",
        "again until it ends by itself; what it leaves is compared with what an undisturbed run",
        "leaves. `python -m tests.robustness.kills`\n",
        "| command | kills | runs compared | results lost |",
        "|---|---:|---:|---:|",
    ]
    for name, row in known["commands"].items():
        lines.append(f"| `legs {name}` | {row['kills']:,} | {row['runs']:,} | {row['lost']:,} |")
    return "\n".join([*lines, _origin(known)])


def _embed(known: Known) -> str:
    lines = [
        "## Rows of a long table\n",
        "SMILES of ZINC and QM9 in a table, some bad rows among them, are embedded into a folder",
        f"of Parquet files (`legs embed -o FOLDER`, engine {known['engine']}) and ended by",
        "`kill -9`: first the command alone, then with all its workers. The same command resumes.",
        "Every row of the input must come out once, under its number and its id, with features",
        "unless it is bad. `python -m tests.robustness.embed_kills`\n",
        "| rows in | rows out | missing | twice | wrong | bad, listed | kills | parts | "
        "kept by the last run | MB |",
        "|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    words = ("rows_in", "rows_out", "missing", "twice", "wrong", "listed", "kills", "parts", "kept")
    numbers = " | ".join(f"{known[word]:,}" for word in words)
    lines.append(f"| {numbers} | {known['megabytes']:,.0f} |")
    return "\n".join([*lines, _origin(known)])


def _flips(known: Known) -> str:
    lines = [
        "## Bytes that change\n",
        f"One bit of one byte in every {known['every']} of each file is changed, one at a time, and"
        if known["every"] > 1
        else "One bit of every byte of each file is changed, one at a time, and",
        "files are cut at many lengths. *Same*: the values read are identical, because the change",
        "hit white space, or because the damaged file was computed again.",
        "`python -m tests.robustness.flips`\n",
        "| files | tried | refused | same | silently accepted |",
        "|---|---:|---:|---:|---:|",
    ]
    for name, row in known["files"].items():
        numbers = " | ".join(f"{row[word]:,}" for word in ("tried", "refused", "same", "silent"))
        lines.append(f"| {name} | {numbers} |")
    return "\n".join([*lines, _origin(known)])


def _fuzz(known: Known) -> str:
    lines = [
        "## Damaged and hostile input\n",
        "Bytes, numbers and values in valid files are changed at random. *Right checksums*: the",
        "checksums are recomputed after the change, as an attacker would do. Every input has to",
        "end in a complete result or in one of our own errors. Anything else counts as a crash:",
        "another exception, 20 seconds of processor time, a file that was changed or left behind,",
        "or more than 1 GB of memory beyond what the process took before. The last column is the",
        "most that a single input took. `python -m tests.fuzz`\n",
        "| parser | inputs | accepted | refused | crashes | peak memory |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    for name, row in known["parsers"].items():
        words = ("inputs", "accepted", "refused", "broken")
        numbers = " | ".join(f"{row[word]:,}" for word in words)
        peak = f"{row['peak_bytes'] / 1e6:,.0f} MB" if "peak_bytes" in row else ""
        lines.append(f"| {name} | {numbers} | {peak} |")
    return "\n".join([*lines, _origin(known)])


def _reproductions(known: Known) -> str:
    lines = [
        "## Commands that once failed\n",
        "Each of these commands once lost files, hung, exhausted memory or gave a wrong result. It",
        f"runs in a process limited to {known['memory'] >> 30} GB of address space, and has to end",
        "with the right result, or with a message and exit status 1 or 2; without a traceback, and",
        "with all other files unchanged. `python -m tests.robustness.reproductions`\n",
        "| area | commands | wrong |",
        "|---|---:|---:|",
    ]
    for name, row in known["points"].items():
        lines.append(f"| {name} | {row['commands']:,} | {row['wrong']:,} |")
    return "\n".join([*lines, _origin(known)])


def _soak(known: Known) -> str:
    lines = [
        "## Memory\n",
        "A LEGS network is trained on batches of changing sizes; memory is looked at after a fifth",
        "of them, and at the end. `python -m tests.robustness.soak`\n",
        "| kernels | batches | MB after warm-up | MB at the end | MB grown |",
        "|---|---:|---:|---:|---:|",
    ]
    for row in known["ways"]:
        numbers = f"{row['warm']:,.0f} | {row['end']:,.0f} | {row['grown']:.1f}"
        lines.append(f"| {row['way']} | {row['batches']:,} | {numbers} |")
    return "\n".join([*lines, _origin(known)])


def _origin(known: Known) -> str:
    versions = ", ".join(f"{name} {number}" for name, number in known["versions"].items())
    label = f"{known['label']}; " if known.get("label") else ""
    return (
        f"\n{label}{known['date'][:16].replace('T', ' ')} UTC, {known['seconds']:,.0f} s, "
        f"{known['machine']}, {known['device']}; {versions}; commit {known['commit'][:10]}.\n"
    )


if __name__ == "__main__":
    sys.exit(main())
