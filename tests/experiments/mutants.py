"""Mistakes that the tests of this folder find: a file below admmnet/, what it says, and what would be wrong."""

MUTANTS = {
    "trials see the test records": ("experiments/tasks.py", "read, trial)", "read, False)"),
    "trials are priced by all rows": ("experiments/tasks.py", "(config, held)", "(config, whole)"),
    "the least cost is told": ("experiments/tasks.py", "max(proven, default=0.0)", "min(proven, default=0.0)"),
    "a cost forgets the final run": ("experiments/tasks.py", ", final[agent]", ""),
    "agents hold out the same rows": ("experiments/tasks.py", "spawn_key=(_STREAM, agent)", "spawn_key=(_STREAM,)"),
    "held-out rows train, too": ("experiments/tasks.py", "kept[held] = False", "kept[held[:0]] = False"),
    "the largest error wins": ("experiments/driver.py", "return min(means, key", "return max(means, key"),
    "other settings go on": ("experiments/grid.py", 'kept} | own["settings"]', "kept}"),
    "other records go on": ("experiments/pool.py", "sha256(path)", "path.name"),
    "parts leave a piece out": ("experiments/grid.py", "found[part[0] - 1 :: part[1]]", "found[part[0] :: part[1]]"),
    "a file of somebody goes": ("experiments/driver.py", "        if strange:\n", "        if len(strange) > 1:\n"),
    "spreads of another size": ("experiments/figures.py", "stdev)", "lambda own: stdev(own) * 0.7)"),
    "the least epsilon of the seeds": ("experiments/figures.py", "over(rows, name, max)", "over(rows, name, min)"),
    "common values win": ("experiments/parsing.py", "entry, entries) | own", "entry, entries) | own | common"),
    "answers of other files are kept": ("experiments/pool.py", ", sums_of(self.files)", ""),
    "lost processes hang": ("experiments/pool.py", "process.kill()", "process.is_alive()"),
}
