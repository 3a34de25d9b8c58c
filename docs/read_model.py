"""What `admmnet predict` says, from model.json and numpy alone: `scores`, `predictions`, `features`."""

import json
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

import numpy as np

model = json.loads(Path("model.json").read_text())
theta = np.array(model["coefficients"])  # (K, d)


def scores(X):
    """Return scores (m, K) of rows (m, d), in the order of model['features']."""
    weights = theta
    if model["intercept"] is not None:  # the constant is part of the row's norm
        X, weights = np.c_[X, np.ones(len(X))], np.c_[theta, model["intercept"]]
    if model["whitening"] is not None:
        X = X @ np.array(model["whitening"]).T
    norms = np.linalg.norm(X, axis=1, keepdims=True) if model["rows"] == "norm 1" else 1.0
    return (X / norms) @ weights.T


def predictions(X):
    """Return a label or a target for each row."""
    found = scores(X)
    if model["task"] == "real":
        return found[:, 0] * model["target"]["reach"] + model["target"]["centre"]
    best = found.argmax(axis=1) if model["task"] == "classes" else (found[:, 0] > 0).astype(int)
    return [model["labels"][k] for k in best]


def features(record):
    """Return the features of a record such as {'age': '47', 'ward': 'b'}."""
    if model["measured"] is not None:
        parts = model["measured"]["columns"]
    else:
        parts = [{"kind": "declared", "name": name} for name in model["encoding"]["columns"]]
    make = {"declared": declared, "number": measured, "buckets": bucket}
    return [value for part in parts for value in make[part["kind"]](record, part)]


def declared(record, part):
    """Return features of a column with declared bounds or categories."""
    name, rule = part["name"], model["encoding"]["columns"][part["name"]]
    text, missing = record[rule.get("column", name)].strip(), rule.get("missing")
    gone = text.casefold() in model["missing"]
    if rule["kind"] == "categorical":
        groups = rule.get("groups") or {c: [c] for c in rule["categories"]}
        known = [text in map(str, members) for members in groups.values()]
        gone = gone and not any(known)
        if gone and missing not in (None, "refuse", "indicator"):  # a category stands for it
            known = [missing in map(str, members) for members in groups.values()]
        other = not any(known) and not (gone and missing == "indicator")
        if other and not rule.get("other"):
            raise ValueError(f"{name}: undeclared category {text!r}")
        found = known + ([other] if rule.get("other") else [])
    else:
        if gone and isinstance(missing, (int, float)):  # a number stands for it
            text, gone = missing, False
        found = numbers(0.0 if gone else float(text), rule)
        found = [0.0] * len(found) if gone else found
    found = [*found, gone] if missing == "indicator" else found
    return [rule.get("weight", 1.0) * value for value in found]


def numbers(x, rule):
    """Return features of a number by its scale."""
    scale = rule.get("scale", "bins" if "edges" in rule else "linear")
    if scale == "bins":  # an interval from each edge to the next
        return [a <= x < b for a, b in zip(rule["edges"], [*rule["edges"][1:], float("inf")], strict=True)]
    if scale == "none":
        return [x]
    low, high = rule["low"], rule["high"]
    x = min(max(x, low), high) - low
    part = np.log1p(x) / np.log1p(high - low) if scale == "log" else x / (high - low)
    return [2 * part - 1 if scale == "centred" else part]


def number_of(text):
    """Return the number that a text is; nan if it is missing."""
    return float("nan" if str(text).strip().casefold() in model["missing"] else text)


def measured(record, part):
    """Return features of a measured column of numbers, docs/methods.md, eq. (115)."""
    v, low, high = number_of(record[part["column"]]), part["low"], part["high"]
    v = part["missing"] if np.isnan(v) and part["missing"] is not None else v
    if np.isnan(v):
        return [0.0] * 7 + [part["weight"]]
    if part["shares"] is not None:
        edges, shares = low + (high - low) * np.arange(33) / 32, np.array(part["shares"])
        place = np.interp(v, edges, shares, left=0.0, right=1.0)
        least, most = np.interp((0.01, 0.99), shares + 1e-9 * np.arange(33), edges)
        least, most = (least, most) if least < most else (low, high)
        line = np.clip(2 * (v - least) / (most - least) - 1, -1, 1)
    else:
        line = np.sign(v) * min(1.0, np.log1p(abs(v)) / np.log1p(1e6))
        place = (line + 1) / 2
    hats, i = [0.0] * 6, min(int(5 * place), 4)
    hats[i], hats[i + 1] = 1 - (5 * place - i), 5 * place - i
    weight = part["weight"] * model["measured"]["omega"] / 2**0.5
    return [weight * value for value in [*hats, line]] + [0.0]


def bucket(record, part):
    """Return features of a category that nobody declared."""
    text = record[part["column"]].strip()
    with suppress(ValueError):
        text = f"{float(text):.17g}"  # 1, +1 and 1.0 are one category
    place = sha256(f"{part['name']}\x1f{text}".encode()).digest()[-1] % part["count"]
    return [part["weight"] * (k == place) for k in range(part["count"])]
