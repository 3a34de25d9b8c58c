"""Mistakes that the tests of this folder find: a file below admmnet/, what it says, and what would be wrong."""

MUTANTS = {
    "numbers beyond their bounds": ("data/encode.py", "np.clip(values, rule.low, rule.high)", "(values)"),
    "an interval is closed above": ("data/encode.py", 'values, side="right"', 'values, side="left"'),
    "indicators forget the weight": ("data/encode.py", "rule.weight * features, table", "features, table"),
    "undeclared categories are others": ("data/encode.py", "gone if is_missing(level) else other", "gone or other"),
    "categories are read of private files": ("data/source.py", "schema.rules if rule.open]:", "[]]:"),
    "ranges of targets are read, too": ("data/source.py", "    if not discover:\n", "    if False:\n"),
    "scales are read of test records": ("data/rows.py", "_largest(source, train)", "_largest(source, every(source))"),
    "the mean of all targets": ("data/rows.py", "np.mean(source.y[train])", "np.mean(source.y)"),
    "targets leave [-1, 1]": ("data/records.py", "max(self.high - self.centre,", "min(self.high - self.centre,"),
    "rows longer than 1": ("data/rows.py", "1.0 + 1e-12", "2.0"),
    "the draw is that of the shards": ("data/rows.py", ".DRAW", ".SHARDS"),
    "a value goes to two agents": ("data/rows.py", "        load[agent] += int(sizes[code])\n", ""),
    "left-out records do not count": ("data/loading.py", "if read or source.table.left_out else", "if read else"),
    "drafts quote values in files": ("data/draft.py", "is left out: {doubt.reason}", "is left out: {doubt.example}"),
    "the wrong agent's records": ("data/loading.py", "(end - n, end)", "(end - n, end) % max(n, 1)"),
    "unknown files are not told": ("data/known.py", "self._unknown(paths) if self.stated", "() if self.stated"),
    "text is missing without a word": ("data/encode.py", "if schema.measured and table", "if False and table"),
    "downloads are not checked": ("data/files.py", "if digest != sha256:", "if not digest:"),
    "bombs unpack": ("data/files.py", "if self._left < 0:", "if self._left < -(1 << 40):"),
    "a private run tests on its own rows": ("data/given.py", "any(overlap(test, other) for other in rows)", "False"),
}
