"""Mistakes that the tests of this folder find: a file below admmnet/, what it says, and what would be wrong."""

MUTANTS = {
    "a self-loop is an edge": ("graph/simple.py", "        if i == j:\n", "        if i == j < 0:\n"),
    "parallel edges are merged": ("graph/simple.py", "if key in self._edges:", "if key in self._edges and line < 0:"),
    "numbers may have gaps": ("graph/simple.py", "if largest != count - 1:", "if largest > count:"),
    "two parts are a network": ("graph/simple.py", "if len(parts) > 1:", "if len(parts) > 2:"),
    "an edge may stand twice at one end": ("graph/files.py", "if neighbour in mine or head not", "if head not"),
    "a directed graph is taken": ("graph/files.py", "if data.directed:", "if data.directed is None:"),
    "the first line of a csv file is dropped": ("graph/files.py", "first.isdecimal()", "False"),
    "a gap of another eigenvalue": ("graph/__init__.py", "abs(eigenvalues[-2])", "abs(eigenvalues[-3])"),
    "weights of the lower degree": ("graph/__init__.py", "np.maximum.outer(", "np.minimum.outer("),
    "another seed first": ("graph/specs.py", "in range(seed, seed + 1000)", "in range(seed + 1, seed + 1000)"),
    "few agents are drawn the other way": ("graph/specs.py", "FAST_ABOVE = 1000", "FAST_ABOVE = 10"),
    "a complement of too high a degree": ("graph/specs.py", "n - 1 - k, n, seed=seed", "n - k, n, seed=seed"),
    "a row of a grid that is too long": ("graph/specs.py", "column + 1 < columns", "column < columns"),
    "ties go to the highest": ("graph/simple.py", "return min(agent for agent", "return max(agent for agent"),
    "the middle behind the middle": ("graph/simple.py", "path[centre][1]", "(path[centre][1] + 1)"),
    "all speak in a sum": ("graph/simple.py", "+= self.upward(speaking)[below]", "+= 1"),
    "parts forget agents": ("graph/simple.py", "set(search(around, start))", "{start, *around[start]}"),
}
