"""A trained model in plain words and large numbers."""

from __future__ import annotations

from legs.report.blocks import Fact
from legs.report.folders import Run
from legs.report.words import (
    duration,
    listed,
    method_name,
    number,
    percent,
    share_error,
    things,
)


def is_classes(run: Run) -> bool:
    """Whether classes are predicted, also of runs that do not say so."""
    kind = run.results.get("task", {}).get("kind")
    return bool(kind == "classification" if kind else "accuracy" in run.results["scores"]["train"])


def names_of(run: Run) -> list[str]:
    """Names of classes or targets."""
    known = run.results.get("task", {}).get("names") or run.model.get("task", {}).get("names", [])
    return [str(name) for name in known]


def summary(run: Run) -> list[str]:
    """What the run did and found, in plain words."""
    results, names = run.results, names_of(run)
    data, scores = results["data"], results["scores"]
    molecules = bool(data.get("molecules"))
    split = results.get("split", {})
    trained = things(molecules, split.get("train", data["graphs"]))
    model = method_name(str(results["settings"]["model"]))
    if is_classes(run):
        what = f"tell {len(names)} classes apart ({listed(names)})"
    else:
        what = f"predict {listed(names)}"
        if len(names) > 3:
            what = f"predict {len(names)} numbers ({listed(names, 4)})"
    lines = [
        f"{model} learned from {trained} of {data['name'] or 'a data set'} to {what}. "
        f"It has {results['parameters']:,} parameters and took {duration(results['seconds'])}."
    ]
    test = scores.get("test")
    if test is None:
        return [*lines, "No graphs were held out, so how good it is on new ones is not known."]
    count = split.get("test", 0)
    if is_classes(run):
        guess = scores["guess"]["accuracy"]
        unseen = things(molecules, count) if count else "graphs"
        lines.append(
            f"Of {unseen} that it had not seen, it named the right class for "
            f"{percent(test['accuracy'])}. Always answering the most frequent class would be right "
            f"for {percent(guess)}."
        )
        if count and share_error(test["accuracy"], count) > 0.02:
            error = 100 * share_error(test["accuracy"], count)
            lines.append(
                f"With so few test graphs the accuracy is uncertain by about {error:.0f} points "
                "(one standard error)."
            )
        return lines
    r2 = test.get("r2")
    unseen = things(molecules, count) if count else "graphs"
    if r2 is not None:
        verdict = (
            f"On {unseen} that it had not seen, it explains {percent(max(r2, 0), 0)} of the "
            f"variation (R² {r2:.2f}{', the mean over targets' if len(names) > 1 else ''}). "
            "Guessing the mean explains none."
        )
        lines.append(verdict)
    if len(names) == 1 and (error := test.get(f"mae:{names[0]}")) is not None:
        lines.append(f"Its predictions of {names[0]} are off by {error:.3g} on average.")
    return lines


def facts(run: Run) -> list[Fact]:
    """The most important numbers."""
    results = run.results
    test = results["scores"].get("test", {})
    found = []
    if "accuracy" in test:
        found.append(Fact(percent(test["accuracy"]), "of unseen graphs right"))
        found.append(Fact(percent(results["scores"]["guess"]["accuracy"]), "by guessing"))
    elif test:
        found.append(Fact(number(test.get("r2")), "R² on unseen graphs"))
        found.append(Fact(number(test.get("whitened_mse")), "MSE, targets scaled to variance 1"))
    found.append(Fact(f"{results['parameters']:,}", "parameters"))
    if results.get("epochs"):
        found.append(Fact(f"{results['best_epoch']} of {results['epochs']}", "best epoch"))
    return found
