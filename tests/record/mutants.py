"""Mistakes in admmnet/record that tests of this folder must find."""

MUTANTS = {
    "half of the agents make an end": ("record/finish.py", "agents // 2 + 1", "(agents + 1) // 2"),
    "a stranger may sign": ("record/finish.py", "if key is None or not verify", "if key is not None and not verify"),
    "the topology is not signed": ("record/finish.py", '"bytes_sent", "notes"', '"bytes_sent", "topology", "notes"'),
    "unsigned figures are taken over": ("record/finish.py", "        train_loss=None,\n", ""),
    "noise.npy may be planted": ("record/folder.py", '"noise.npy", ', ""),
    "a size is enough": ("record/folder.py", "if _entry(file) != entry:", "if _entry(file).size != entry.size:"),
    "metrics of an earlier round count": ("record/verdict.py", "last == end >= summary.rounds - 1", "last == end"),
    "a charge after a refusal": ("record/verdict.py", "last > entry.refused_at:", "last > entry.refused_at + 1:"),
    "the smallest figure is shown": ("record/verdict.py", "else max(values)", "else min(values)"),
    "groups without all plans": ("record/verdict.py", "if planned else None", "if entries else None"),
    "most colluders of an account": ("record/verdict.py", "min((entry[", "max((entry["),
    "less than is proven again": ("record/network.py", "MORE, LESS = 1e-3, 1e-9", "MORE, LESS = 1e-9, 1e-3"),
    "a run that went on": ("record/network.py", "if went_on or any(", "if went_on and any("),
    "the other accountant": ("record/folder.py", 'accountant == "published" else', 'accountant != "published" else'),
    "an epsilon to the nearest": ("record/format.py", "rounding=ROUND_CEILING", "rounding='ROUND_HALF_EVEN'"),
    "another matrix": ("record/encoding.py", "hexdigest() != digest", "hexdigest() == ''"),
}  # fmt: skip
