"""Mistakes of one line that tests of solvers must see: place below admmnet/, text, and what stands there instead."""

_KEPT = "self._at, self._scores, self._spare = theta, self._spare, self._scores"
MUTANTS = {
    "sparse sums": (
        "solvers/certificate.py",
        "return int(X.shape[0]) if is_sparse(X) else block_rows",
        "return block_rows",
    ),
    "slopes nearly exact": ("solvers/certificate.py", "reach + 18 * _UNIT * largest", "reach + 2 * _UNIT * largest"),
    "margin without features": ("solvers/certificate.py", "R * (c * d * R * size", "R * (c * R * size"),
    "others' problems": ("solvers/certificate.py", "np.array(places), G[places]", "np.array(places), G[: len(places)]"),
    "sure steps": ("solvers/newton.py", "0, 0) if norm + margin <= beta", "0, 0) if norm <= 2.0 * beta"),
    "scores of another point": ("solvers/newton.py", _KEPT, "self._at = theta"),
    "block without margin": (
        "solvers/blocks/group.py",
        "done = (bound <= front.beta)",
        "done = (front.norm <= front.beta)",
    ),
    "padding": ("solvers/blocks/group.py", "met * len(y) / self.stack.counts[i]", "met"),
    "handed over": ("solvers/blocks/group.py", "= answer.theta, False, answer", "= answer.theta, True, answer"),
    "no room for noise": ("solvers/radius.py", "return whole * (1.0 - 1e-9) - tail", "return whole * (1.0 - 1e-9)"),
    "widest": ("solvers/radius.py", "if d < WIDE else 1", "if d <= WIDE else 1"),
    "least beta without noise": ("solvers/radius.py", "most = (facts.G + tail)", "most = facts.G"),
    "clip": ("solvers/radius.py", "while not _norm(scaled) <= radius:", "while False:"),
    "tail": ("solvers/radius.py", "math.sqrt(2.0 * _TAIL_EXPONENT))", "math.sqrt(_TAIL_EXPONENT))"),
    "sure error": ("solvers/accurate.py", "unsure + 3.0 * _U * steep", "unsure"),
    "ours": ("solvers/losses.py", "getattr(module, kind.__name__, None) is kind", "module is not None"),
}
